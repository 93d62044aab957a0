package logfile

import (
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// Watcher notifies readers of changes of their files. All readers share one watcher of the system, because it limits their number per
// user; the watcher exists while a reader exists. The zero value is ready to use.
type Watcher struct {
	mu      sync.Mutex
	system  *fsnotify.Watcher
	dirs    map[string]int                        // subscriptions per directory
	readers map[string]map[chan struct{}]struct{} // by the path of a file
}

// subscribe returns a channel that receives a value after changes of a file, and a function that ends the subscription. A nil channel
// means that the system does not notify: then the reader looks at the file from time to time.
func (w *Watcher) subscribe(path string) (<-chan struct{}, func()) {
	if w == nil {
		return nil, func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.system == nil {
		system, err := fsnotify.NewWatcher()
		if err != nil {
			return nil, func() {}
		}
		w.system, w.dirs, w.readers = system, map[string]int{}, map[string]map[chan struct{}]struct{}{}
		go w.dispatch(system)
	}
	c := make(chan struct{}, 1)
	paths := watched(path)
	for _, p := range paths {
		w.add(p, c)
	}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, p := range paths {
			w.remove(p, c)
		}
		if len(w.readers) == 0 {
			_ = w.system.Close()
			w.system = nil
		}
	}
}

// watched returns the paths whose changes are changes of a log: the path, and the target of the path if it is a symbolic link.
func watched(path string) []string {
	path = filepath.Clean(path)
	target, err := filepath.EvalSymlinks(path)
	if err != nil || target == path {
		return []string{path}
	}
	return []string{path, target}
}

func (w *Watcher) add(path string, c chan struct{}) {
	dir := filepath.Dir(path)
	if w.dirs[dir]++; w.dirs[dir] == 1 {
		// Without a notification the reader still looks once per second.
		_ = w.system.Add(dir)
	}
	if w.readers[path] == nil {
		w.readers[path] = map[chan struct{}]struct{}{}
	}
	w.readers[path][c] = struct{}{}
}

func (w *Watcher) remove(path string, c chan struct{}) {
	dir := filepath.Dir(path)
	if w.dirs[dir]--; w.dirs[dir] == 0 {
		delete(w.dirs, dir)
		_ = w.system.Remove(dir)
	}
	if delete(w.readers[path], c); len(w.readers[path]) == 0 {
		delete(w.readers, path)
	}
}

// dispatch notifies the readers of each changed file until the watcher is closed.
func (w *Watcher) dispatch(system *fsnotify.Watcher) {
	for {
		select {
		case e, ok := <-system.Events:
			if !ok {
				return
			}
			w.notify(e.Name)
		case _, ok := <-system.Errors:
			if !ok {
				return
			}
			w.notify("") // events were lost
		}
	}
}

// notify wakes the readers of a file; all readers if the path is empty.
func (w *Watcher) notify(path string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if path != "" {
		wake(w.readers[path])
		return
	}
	for _, readers := range w.readers {
		wake(readers)
	}
}

func wake(readers map[chan struct{}]struct{}) {
	for c := range readers {
		select {
		case c <- struct{}{}:
		default: // the reader has a notification that it has not taken yet
		}
	}
}
