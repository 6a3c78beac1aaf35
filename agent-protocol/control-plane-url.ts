/** Whether that address leads to the machine itself, and so to the control plane on the control plane's machine alone. */
export function isLoopback(address: string): boolean {
  return isLoopbackHost(new URL(address).hostname);
}

/** Whether that host, as in a URL, is the machine itself. */
export function isLoopbackHost(host: string): boolean {
  return /^(localhost|127(\.\d+){3}|\[::1\]|::1)$/.test(host);
}

/** Whether a connection to that address uses TLS or stays within the machine. */
export function isPrivate(address: string): boolean {
  return new URL(address).protocol === 'https:' || isLoopback(address);
}
