package apiserver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
)

// databaseLockTimeout limits the wait for the lock of etcd's database. This process already holds the lock of
// the data directory, so no other process of ours has it.
const databaseLockTimeout = time.Second

// checkMember reads etcd's files before etcd does, and changes nothing. An incomplete record at the end of
// the log, left by a kill, is normal and passes; damage in the middle is an error, and so is a log that ends
// before the database does. Etcd itself would truncate the log there, keep the remainder under another name,
// and wait forever for a leader.
func checkMember(dir string) error {
	log, database := filepath.Join(dir, "wal"), filepath.Join(dir, "snap", "db")
	applied, err := appliedIndex(database)
	if err != nil {
		return fmt.Errorf("etcd's database %s is damaged: %w", database, err)
	}
	if !wal.Exist(log) {
		if applied > 0 {
			return fmt.Errorf("etcd's log %s is missing, but its database exists", log)
		}
		return nil
	}
	last, err := lastIndex(log)
	if err == nil && last < applied {
		err = fmt.Errorf("it ends at entry %d, but the database contains entry %d", last, applied)
	}
	if err != nil {
		return fmt.Errorf("etcd's log %s is damaged: %w", log, err)
	}
	return nil
}

// lastIndex returns the index of the last complete entry of a log.
func lastIndex(dir string) (uint64, error) {
	snapshots, err := wal.ValidSnapshotEntries(zap.NewNop(), dir)
	if err != nil {
		return 0, err
	}
	if len(snapshots) == 0 {
		return 0, errors.New("its first record is missing") // a log starts with the mark of a snapshot
	}
	newest := snapshots[len(snapshots)-1]
	w, err := wal.OpenForRead(zap.NewNop(), dir, newest)
	if err != nil {
		return 0, err
	}
	defer func() { _ = w.Close() }()
	_, _, entries, err := w.ReadAll()
	if err != nil {
		return 0, err
	}
	if n := len(entries); n > 0 {
		return entries[n-1].Index, nil
	}
	return newest.Index, nil
}

// appliedIndex returns the index of the last entry that is applied to a database (etcd's storage/schema:
// consistent_index in the bucket meta); 0 if the database does not exist.
func appliedIndex(file string) (index uint64, err error) {
	info, err := os.Stat(file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	// A missing page would exit the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil { // bolt reports an unreadable page with a panic
			err = fmt.Errorf("%v", p)
		}
	}()
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true, Timeout: databaseLockTimeout})
	if err != nil {
		return 0, err
	}
	defer func() { _ = db.Close() }()
	err = db.View(func(tx *bbolt.Tx) error {
		if info.Size() < tx.Size() {
			return fmt.Errorf("it is truncated to %d of %d bytes", info.Size(), tx.Size())
		}
		if meta := tx.Bucket([]byte("meta")); meta != nil {
			if v := meta.Get([]byte("consistent_index")); len(v) == 8 {
				index = binary.BigEndian.Uint64(v)
			}
		}
		return nil
	})
	return index, err
}
