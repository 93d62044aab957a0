// Package snapshot has the format of a file with the objects of a cluster, and the pure parts of saving and restoring it.
//
// A file is a stream of YAML documents, or of JSON values with one per line, optionally compressed with gzip. The first
// document (kind Snapshot) describes the file, and the last one (kind SnapshotEnd) proves that the file is complete. Reader
// and Writer hold one object at a time.
//
// A recording is such a file with the changes of the objects after it: one document of KWOK's kind ResourcePatch for each change,
// and a last document of kind RecordingEnd. Reader also reads recordings of KWOK, which have neither header nor end.
//
// A file of format Store has the keys and values of a whole store instead of objects, see StoreWriter and StoreReader.
//
// Rank orders the kinds such that a restore in the order of the file finds the objects that others require. LeaveOut decides
// which objects a restore cannot use. Trim and Detach remove the fields that the API server sets. RelinkOwners and Relink
// replace the UIDs of the saved objects by those of the created ones.
//
// It sends no requests and opens no files; package transfer does the former, and internal/cli/snapshot the latter.
//
// Floor: F1.
package snapshot
