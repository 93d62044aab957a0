package store

// watchers are the watches of a world, by what they observe. The world's lock guards it.
type watchers struct {
	byKey    map[string][]*watcher // of one key
	byPrefix map[string][]*watcher // of all keys below a prefix, which ends in a slash
	progress map[string][]*watcher // watches with progress, by the resource's directory
}

func newWatchers() watchers {
	return watchers{
		byKey:    map[string][]*watcher{},
		byPrefix: map[string][]*watcher{},
		progress: map[string][]*watcher{},
	}
}

func (ws *watchers) add(w *watcher) {
	if w.recursive {
		ws.byPrefix[w.key] = append(ws.byPrefix[w.key], w)
	} else {
		ws.byKey[w.key] = append(ws.byKey[w.key], w)
	}
	if w.progress {
		dir := w.objects.directory()
		ws.progress[dir] = append(ws.progress[dir], w)
	}
}

func (ws *watchers) remove(w *watcher) {
	if w.recursive {
		without(ws.byPrefix, w.key, w)
	} else {
		without(ws.byKey, w.key, w)
	}
	if w.progress {
		without(ws.progress, w.objects.directory(), w)
	}
}

// without removes w from one list of a map, and the list from the map if it is empty.
func without(lists map[string][]*watcher, key string, w *watcher) {
	list := lists[key]
	for i, other := range list {
		if other != w {
			continue
		}
		last := len(list) - 1
		list[i], list[last] = list[last], nil
		if list = list[:last]; len(list) == 0 {
			delete(lists, key)
		} else {
			lists[key] = list
		}
		return
	}
}

func (ws *watchers) all() (all []*watcher) {
	for _, lists := range []map[string][]*watcher{ws.byKey, ws.byPrefix} {
		for _, list := range lists {
			all = append(all, list...)
		}
	}
	return all
}

// deliver sends a change to the watches of its key and of the directories above it, with one map lookup per slash.
func (ws *watchers) deliver(c *change) {
	for _, w := range ws.byKey[c.key] {
		w.push(c)
	}
	ancestors(c.key, func(prefix string) {
		for _, w := range ws.byPrefix[prefix] {
			w.push(c)
		}
	})
}

// requestProgress sends the world's revision to all its progress watches.
func (w *World) requestProgress() {
	// The read lock is enough: no write can occur between the revision and the queues, and each queue has a lock of its own.
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, list := range w.watchers.progress {
		pushProgress(list, w.rev)
	}
}

// SendProgress sends the world's revision to its watches that accept bookmarks, unless they have received it. It is for the
// worlds of runs, which have no background task that sends progress periodically.
func (w *World) SendProgress() {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, list := range w.watchers.progress {
		pushNewProgress(list, w.rev)
	}
}

// revisionWithProgress returns the revision and sends it to the progress watches of one resource, unless they have received
// it.
func (w *World) revisionWithProgress(directory string) int64 {
	w.mu.RLock()
	defer w.mu.RUnlock()
	pushNewProgress(w.watchers.progress[directory], w.rev)
	return w.rev
}

// pushNewProgress is pushProgress to the watches that have not received the revision.
func pushNewProgress(list []*watcher, rev int64) {
	for _, w := range list {
		if !w.knows(rev) {
			w.push(&change{kind: progressed, rev: rev})
		}
	}
}

func pushProgress(list []*watcher, rev int64) {
	for _, w := range list {
		w.push(&change{kind: progressed, rev: rev})
	}
}
