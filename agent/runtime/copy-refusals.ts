/** Why a volume must not be copied, in words that follow its name. */
export const copyRefusals = {
  ofAgent: 'was made by Setpoint: volumes of Setpoint are not copied',
  driver: (driver: string) => `has the driver ${driver}: only volumes of the driver local are copied`,
  options:
    'has options of its driver, as volumes on other disks have: only volumes without options, but for `size`, are copied',
} as const;
