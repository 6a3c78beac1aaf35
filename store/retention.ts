const minute = 60 * 1000;
const hour = 60 * minute;
const day = 24 * hour;

/** How many objects of a history are kept, and for how long. Durations in milliseconds. */
export const retention = {
  deploymentsPerApplication: 20,
  runsPerApplication: 50,
  versionsPerFunction: 10,
  operationsKeepMs: day,
  /** Ended healings of servers, whose number `countLimits.healingsPerServer` bounds. */
  healingsKeepMs: hour,
  /** Ended validations of servers, whose number `countLimits.validationsPerServer` bounds. */
  validationsKeepMs: minute,
  /** Ended provisionings, of which a server has one. */
  provisioningsKeepMs: hour,
  /** Ended operations that are kept of one application. */
  operationsPerApplication: 20,
  /** Ended deliveries that are kept of one webhook. */
  deliveriesPerWebhook: 100,
  deliveriesKeepMs: 30 * day,
  /** Sessions that one user may have; the oldest is deleted. */
  sessionsPerUser: 100,
  /** After the last code for an address: the record limits no further codes and guesses by then. */
  loginCodesKeepMs: day,
  /** After the last code, for a record with known places of the owner. */
  knownPlacesKeepMs: 30 * day,
  /** After its expiry a service key is still listed, so that its owner sees what stopped working. */
  expiredKeysKeepMs: 7 * day,
  /** An invite is kept this long after its end, so that a late user learns that it is over. */
  invitesKeepMs: 7 * day,
  /** Backups that failed, and those whose objects were removed. */
  endedBackupsKeepMs: 30 * day,
  restoresPerDatabase: 20,
  /** Ended restores of volumes. */
  endedRestoresKeepMs: 30 * day,
  /** Ended drills. */
  endedDrillsKeepMs: 7 * day,
  /** The volume that a database served from before a restore. */
  formerVolumeKeepMs: 7 * day,
  notificationsPerUser: 200,
  notificationsKeepMs: 30 * day,
} as const;
