// Package snapshot has the commands snapshot save, export, restore, record and replay.
//
// They choose the cluster and the file, report progress and results, and map errors to exit codes. A file replaces another one
// only when it is complete. Package internal/snapshot has the format, and internal/snapshot/transfer sends the requests.
//
// The command up uses Restore for its flag --from.
//
// Floor: F4, a part of internal/cli.
package snapshot
