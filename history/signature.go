package history

import (
	"encoding/binary"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
)

// Signature returns a hash of what each actor observed and did in the run: the events and answers that it received, and
// its requests with their results, in its own order. Two runs with the same signature show no actor any difference, so
// one of them is redundant.
//
// Objects are numbered by their first appearance and their versions by their order, so names and UIDs that the API
// generates do not matter. Times, the texts of faults, bookmarks and the starts and ends of watches do not either, and
// neither does the order of steps of different actors. Leases and Events do not count.
//
// The partial order reduction behind it: deliveries to different clients commute unless one of the clients decides a write
// from them, and then the write is in its sequence.
func (r *Run) Signature() Hash {
	s := signature{objects: map[Object]uint64{}, versions: map[Object][]int64{}, writes: map[string][]int64{}, actors: map[string]Hash{}}
	for i := range r.Steps {
		s.number(&r.Steps[i])
	}
	for _, revisions := range s.versions {
		slices.Sort(revisions)
	}
	for i := range r.Steps {
		s.add(r, &r.Steps[i])
	}
	all := seedHash
	for _, actor := range slices.Sorted(maps.Keys(s.actors)) {
		all = all.mix(actor, uint64(s.actors[actor]))
	}
	return all
}

// signature is the state of Signature.
type signature struct {
	objects  map[Object]uint64  // the number of each object among those of its resource, from 1
	versions map[Object][]int64 // the revisions of each object
	writes   map[string][]int64 // the revisions of all writes to a resource, in the order of steps
	actors   map[string]Hash
}

// identity returns what a version belongs to: an object by its resource, namespace, name and UID. A successor with the same
// name has another UID.
func identity(s *Step) Object { return Object{Resource: s.Resource, Name: s.Key(), UID: s.UID} }

// number gives the object of a step its number, and records its version.
func (s *signature) number(step *Step) {
	if step.Name == "" || Bookkeeping(step.Resource) {
		return
	}
	o := identity(step)
	if s.objects[o] == 0 {
		s.objects[o] = s.objects[Object{Resource: o.Resource}] + 1
		s.objects[Object{Resource: o.Resource}]++
	}
	if revisions := s.versions[o]; step.Revision != 0 && !slices.Contains(revisions, step.Revision) {
		s.versions[o] = append(revisions, step.Revision)
	}
	if step.Wrote() {
		s.writes[step.Resource] = append(s.writes[step.Resource], step.Revision)
	}
}

// InSignature reports whether the step belongs to what its actor observed and did, according to Signature.
func (s *Step) InSignature() bool {
	if Bookkeeping(s.Resource) {
		return false
	}
	switch s.Kind {
	case Start, Crash:
		return true
	case Frame:
		return s.Type != "BOOKMARK" && s.Reply == ""
	case Answer:
		return len(s.Causes) > 0 && s.Causes[0] < s.N
	case Request:
		return s.Verb != "watch"
	}
	return false
}

// add adds a step to the sequence of its actor.
func (s *signature) add(r *Run, step *Step) {
	switch {
	case !step.InSignature():
	case step.Kind == Start, step.Kind == Crash:
		s.next(step, 0)
	case step.Kind == Answer:
		s.next(step, s.version(&r.Steps[step.Causes[0]]))
	case step.Kind == Request && step.Verb == "list": // how many writes the list contains
		n, _ := slices.BinarySearch(s.writes[step.Resource], step.Revision+1)
		s.next(step, uint64(n))
	default:
		s.next(step, s.version(step))
	}
}

// version returns the number of the version of its object that a step has.
func (s *signature) version(step *Step) uint64 {
	n, _ := slices.BinarySearch(s.versions[identity(step)], step.Revision)
	return uint64(n)
}

// next appends a step and a version to the sequence of the step's actor. The instances of an actor share a sequence.
func (s *signature) next(step *Step, version uint64) {
	actor := strings.TrimRight(step.Actor, "+")
	text := strings.Join([]string{string(step.Kind), step.Verb, step.Resource, step.Subresource, step.Type, step.Reply}, "\x00")
	h, ok := s.actors[actor]
	if !ok {
		h = seedHash
	}
	s.actors[actor] = h.mix(text, s.objects[identity(step)], version, uint64(step.Code))
}

// mix returns the hash after a text and numbers.
func (h Hash) mix(text string, numbers ...uint64) Hash {
	f := fnv.New64a()
	var b [8]byte
	for _, n := range append(numbers, uint64(h)) {
		binary.LittleEndian.PutUint64(b[:], n)
		f.Write(b[:])
	}
	f.Write([]byte(text))
	return Hash(f.Sum64())
}
