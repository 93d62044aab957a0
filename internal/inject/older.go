package inject

import (
	"slices"
	"strconv"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
)

// older returns the revision as of which a stale list of a resource is answered: right before the last write of the resource that the
// record has, or before as many as the fault says. It is not older than the resourceVersion of the list. ok is false if
// there is no older state that the list permits.
func older(steps []history.Step, resource string, f fault.Fault, notOlderThan string) (revision int64, ok bool) {
	var written []int64
	for n := range steps {
		s := &steps[n]
		isEvent := s.Kind == history.Frame && s.Type != "BOOKMARK" && s.Type != "ERROR" && s.Note == ""
		if s.Resource == resource && s.Revision > 0 && (s.Wrote() || isEvent) {
			written = append(written, s.Revision)
		}
	}
	slices.Sort(written)
	written = slices.Compact(written)
	if len(written) == 0 {
		return 0, false
	}
	return notOlder(written[max(0, len(written)-max(f.Writes, 1))]-1, written[len(written)-1], notOlderThan)
}

// notOlder returns the revision as of which a server answers a list whose cache has a revision: that one, or the
// resourceVersion of the list if it is newer. ok is false if that is the newest revision.
func notOlder(cache, newest int64, resourceVersion string) (revision int64, ok bool) {
	least, err := strconv.ParseInt(resourceVersion, 10, 64)
	if err != nil {
		return 0, false
	}
	revision = max(cache, least)
	return revision, revision < newest
}

// ListRead is a list that permits an older state, or a watch that sends the initial objects.
type ListRead struct {
	Actor, Resource, Namespace string
	// Watch: it is the watch.
	Watch bool
	// ResourceVersion is that of the request.
	ResourceVersion string
	// Steps returns the record so far.
	Steps func() []history.Step
	// Newest is the newest revision.
	Newest int64
	// Other is the fault that has connected the client to another server, and OtherRevision the revision of the caches of
	// that server; zero without such a fault.
	Other         fault.Fault
	OtherRevision int64
}

// OldLists decides as of which revision the lists of clients are answered. It has the stale-list faults that wait for a list,
// because a watch that sends the initial objects has been rejected. The zero value is empty.
type OldLists struct{ waiting map[expiry]fault.Fault }

// Decide completes the decision about a read. It changes only decisions to serve, of the current or an older state: a list gets
// the revision as of which it is answered, a watch that a stale-list fault meets is rejected, and a read for which there
// is no older state that it permits is served as it is.
func (l *OldLists) Decide(d Decision, r ListRead) Decision {
	if d.Action != Serve && d.Action != ServeOld {
		return d
	}
	key := expiry{r.Actor, r.Resource, r.Namespace}
	f, stale := l.waiting[key]
	delete(l.waiting, key) // a further watch means that the client does not list
	if d.Action == ServeOld {
		f, stale = d.Fault, true
	}
	switch {
	case r.Watch && d.Action == ServeOld:
		if l.waiting == nil {
			l.waiting = map[expiry]fault.Fault{}
		}
		l.waiting[key] = f
		return Decision{Action: Reject, Fault: f, Rejection: d.Rejection}
	case r.Watch: // its events wait for the other server's caches
		return Decision{Action: Serve}
	case stale:
		if revision, ok := older(r.Steps(), r.Resource, f, r.ResourceVersion); ok {
			return Decision{Action: ServeOld, Fault: f, AsOf: revision}
		}
	}
	if r.OtherRevision > 0 {
		if revision, ok := notOlder(r.OtherRevision, r.Newest, r.ResourceVersion); ok {
			return Decision{Action: ServeOld, Fault: r.Other, AsOf: revision}
		}
	}
	return Decision{Action: Serve}
}
