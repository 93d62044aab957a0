// Package transfer saves the objects of a cluster to a snapshot, and creates the objects of a snapshot in a cluster.
//
// Save lists each kind in pages and writes one object after the other. Restore reads the whole snapshot before its first
// write, so that a truncated file changes nothing, and then creates the objects kind by kind, those of one kind in parallel. It
// tries objects that fail again after the others, as long as that succeeds for some: their owner, their namespace or
// their service account may follow them in the file.
//
// Record saves the objects, and then watches them from the revisions of the lists and writes each change.
//
// Replay restores the objects of a recording, and then sends its changes when they are due.
//
// Memory of Save and Restore does not depend on the number of objects, except for a map of UIDs. Package snapshot has the format and the
// decisions; this package sends the requests. It does not choose the cluster, open the file of the user or print.
//
// Floor: F3.
package transfer
