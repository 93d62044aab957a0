package stages

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/stage"
)

// Times of the table. Each is a trade-off between load and how soon an unexpected state is corrected.
const (
	// confirmAfter is how long the informer may take to show the reason of a conflict or a 404 before the
	// object is read live.
	confirmAfter = time.Second
	// confirmDelete is the same time after a delete that succeeded.
	confirmDelete = 5 * time.Second
	// backoffFirst and backoffMost bound the wait after a failed write: it doubles from the first to the most,
	// times a keyed factor in [0.5, 1).
	backoffFirst = 250 * time.Millisecond
	backoffMost  = time.Minute
)

// table has the state of all objects: one entry per UID, under one lock, and a heap of due times. It sends no
// requests and reads no clock; the engine passes the time in.
//
// Decisions are made without the lock, because the expressions of a stage may take long. A method that changes
// an entry adds it to pending; settle, which each method calls after it has released the lock, decides on the
// pending entries. A decision counts only if its inputs have not changed meanwhile.
type table struct {
	stages *stage.Set
	seed   uint64
	manage func(*corev1.Node) bool
	// owns reports whether an object of another kind, given its UID, belongs to this engine's shard.
	owns func(uid string) bool
	// nodeChanged and podChanged notify the leases and the addresses. They are called under the lock, with
	// nil for an object that was deleted.
	nodeChanged func(uid types.UID, name string, node *corev1.Node, managed bool)
	podChanged  func(uid types.UID, pod *corev1.Pod)
	// troubled is called, under the lock, with a trouble that the user should know of. It must not block.
	troubled func(trouble)
	// wake is called, under the lock, when the next due time may be earlier than before. It must not block.
	wake func()
	// leftOut is called, under the lock, when a stage is left out because it exceeded its budget mostOverruns
	// times. It must not block.
	leftOut func(stage, problem string)

	mu      sync.Mutex
	pending []*entry             // waiting for a decision
	overran map[string]int       // how often a stage exceeded its budget
	entries map[types.UID]*entry // by their UIDs
	names   map[objectKey]types.UID
	podsOf  map[string]map[types.UID]*entry
	due     *agenda[types.UID]
}

type objectKey struct {
	kind            stage.Kind
	namespace, name string
}

// entry is the state of one object.
type entry struct {
	id, uid types.UID
	key     objectKey
	object  stage.Object // the newest observed version
	version uint64       // its resourceVersion
	node    string       // the node of a pod
	managed bool         // whether the engine manages the node
	ready   bool         // whether the node is ready

	// listed is true for a version that existed when the engine started.
	listed bool
	// past.Stage is the stage that the last decision chose.
	past stage.Past

	// busy is true from the dispatch of the entry until its outcome is recorded. Meanwhile newer versions are
	// stored, and nothing is decided.
	busy bool
	// generation counts the changes of the inputs of a decision; dirty is true for a pending entry, deciding
	// while a decision is being made.
	generation      uint64
	dirty, deciding bool
	// failures and rejections are consecutive; nothing is tried before until. waits is the only stage to which
	// that applies, "" for all.
	failures, rejections int
	notBefore            time.Time
	waits                string
	// confirm is when the object is read live because the API has another version than the cache; zero if no
	// read is planned.
	confirm time.Time
	// rejection is why the API rejected the last write as outdated, and rejectedStage the stage of that write.
	// reported has a hash of the last reported trouble of each stage, so that each is reported once.
	rejection, rejectedStage string
	reported                 map[string]uint64
}

// trouble is a problem that keeps a stage of an object from being run.
type trouble struct {
	uid     types.UID
	key     objectKey
	version string
	stage   string
	text    string
}

func newTable(stages *stage.Set, seed uint64, manage func(*corev1.Node) bool) *table {
	return &table{
		stages: stages, seed: seed, manage: manage,
		nodeChanged: func(types.UID, string, *corev1.Node, bool) {},
		podChanged:  func(types.UID, *corev1.Pod) {},
		troubled:    func(trouble) {},
		owns:        func(string) bool { return true },
		wake:        func() {},
		leftOut:     func(string, string) {},
		overran:     map[string]int{},
		entries:     map[types.UID]*entry{},
		names:       map[objectKey]types.UID{},
		podsOf:      map[string]map[types.UID]*entry{},
		due:         newAgenda[types.UID](),
	}
}

func keyOf(o stage.Object) objectKey {
	return objectKey{kind: stage.KindOf(o), namespace: o.GetNamespace(), name: o.GetName()}
}

// idOf returns the key of an object. Stages may select several versions of a kind, each of which has its own
// watch that shows every object.
func idOf(o stage.Object) types.UID {
	kind := stage.KindOf(o)
	if kind == stage.KindPod || kind == stage.KindNode {
		return o.GetUID()
	}
	return o.GetUID() + "@" + types.UID(kind.APIVersion)
}

// unordered is the revision of a resourceVersion that is not a number.
const unordered = 1<<64 - 1

// revision converts a resourceVersion to a number. Those of one resource can be compared (KEP-5504). One that
// is not a number counts as newest.
func revision(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return unordered
	}
	return n
}

// observe stores a version of an object, from the informer or from the answer to a write. It ignores versions
// that are not newer, and objects that are known to be deleted. listed is true for objects that existed when
// the engine started: their delays count from the object's own last change.
func (t *table) observe(now time.Time, o stage.Object, listed bool) {
	defer t.settle(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	version := revision(o.GetResourceVersion())
	key, id := keyOf(o), idOf(o)
	if before, ok := t.names[key]; ok && before != id {
		if t.entries[before].version > version {
			return
		}
		t.forgetLocked(before)
	}
	e := t.entries[id]
	if e == nil {
		e = &entry{id: id, uid: o.GetUID(), key: key}
		t.entries[id] = e
		t.names[key] = id
	} else if version == e.version && version != unordered {
		e.object = o // the cache's object, so that it is in memory once
		return
	} else if version < e.version {
		return
	}
	t.replace(e, o, version)
	e.listed = listed
	t.reconsider(e)
}

// replace makes o the newest version of e.
func (t *table) replace(e *entry, o stage.Object, version uint64) {
	e.object, e.version, e.listed = o, version, false
	e.confirm = time.Time{}
	switch o := o.(type) {
	case *corev1.Pod:
		t.placePod(e, o.Spec.NodeName)
		t.podChanged(e.uid, o)
	case *corev1.Node:
		managed, ready := t.manage(o), nodeReady(o)
		t.nodeChanged(e.uid, e.key.name, o, managed)
		if managed != e.managed || ready != e.ready {
			e.managed, e.ready = managed, ready
			t.reconsiderPods(e.key.name)
		}
	}
}

// placePod adds a pod to the index of its node.
func (t *table) placePod(e *entry, node string) {
	if e.node == node {
		return
	}
	t.unplacePod(e)
	e.node = node
	if t.podsOf[node] == nil {
		t.podsOf[node] = map[types.UID]*entry{}
	}
	t.podsOf[node][e.uid] = e
}

func (t *table) unplacePod(e *entry) {
	if pods := t.podsOf[e.node]; pods != nil {
		delete(pods, e.uid)
		if len(pods) == 0 {
			delete(t.podsOf, e.node)
		}
	}
}

func (t *table) reconsiderPods(node string) {
	for _, pod := range t.podsOf[node] {
		t.reconsider(pod)
	}
}

func nodeReady(n *corev1.Node) bool {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == corev1.NodeReady {
			return n.Status.Conditions[i].Status == corev1.ConditionTrue
		}
	}
	return false
}

// forget drops the object with this UID and everything that is planned for it.
func (t *table) forget(now time.Time, id types.UID) {
	defer t.settle(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(id)
}

// forgetName drops the object with a name, for a delete that the informer detected without having observed the
// object.
func (t *table) forgetName(now time.Time, key objectKey) {
	defer t.settle(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	if uid, ok := t.names[key]; ok {
		t.forgetLocked(uid)
	}
}

func (t *table) forgetLocked(id types.UID) {
	e := t.entries[id]
	if e == nil {
		return
	}
	delete(t.entries, id)
	if t.names[e.key] == id {
		delete(t.names, e.key)
	}
	t.due.remove(id)
	switch e.key.kind {
	case stage.KindPod:
		t.unplacePod(e)
		t.podChanged(e.uid, nil)
	case stage.KindNode:
		t.nodeChanged(e.uid, e.key.name, nil, false)
		t.reconsiderPods(e.key.name)
	}
}

// nodeOf returns the node of a pod, nil if the engine does not manage it.
func (t *table) nodeOf(e *entry) *entry {
	n := t.entries[t.names[objectKey{kind: stage.KindNode, name: e.node}]]
	if n == nil || !n.managed {
		return nil
	}
	return n
}

// decisionInput contains all inputs of the decision on an entry.
type decisionInput struct {
	stages *stage.Set
	seed   uint64
	object stage.Object
	past   stage.Past
	scene  stage.Scene
	listed bool
	ours   bool // false for objects that the engine does not manage

	generation uint64
}

// ask returns the inputs of the decision on the newest version of an entry.
func (t *table) inputOf(e *entry) decisionInput {
	q := decisionInput{stages: t.stages, seed: t.seed, object: e.object, past: e.past, listed: e.listed, ours: true, generation: e.generation}
	switch e.key.kind {
	case stage.KindPod:
		host := t.nodeOf(e)
		if q.ours = host != nil; q.ours {
			q.scene.NodeReady = host.ready
		}
	case stage.KindNode:
		q.ours = e.managed
	default:
		// Stages run on all objects of other kinds, in the shard that has the UID.
		q.ours = t.owns(string(e.uid))
	}
	return q
}

// decide makes the decision; it needs no lock. For an object that existed when the engine started, the delay
// of a stage counts from the object's own last change.
func (q *decisionInput) decide(now time.Time) stage.Decision {
	if !q.ours {
		return stage.Decision{}
	}
	d := q.stages.Decide(now, q.seed, q.object, q.past, q.scene)
	if q.listed && d.Chosen() && q.past.Stage != d.Stage {
		q.past.Stage, q.past.Since = d.Stage, earlier(stage.LastChange(q.object), now)
		d = q.stages.Decide(now, q.seed, q.object, q.past, q.scene)
	}
	return d
}

// reconsider adds an entry to pending, for the next call of settle. Each entry that has a stage left ends up
// in the heap of due times, or is busy.
func (t *table) reconsider(e *entry) {
	e.generation++
	if !e.busy && !e.dirty {
		e.dirty = true
		t.pending = append(t.pending, e)
	}
}

// settle decides on every pending entry.
func (t *table) settle(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.pending) > 0 {
		e := t.pending[0]
		t.pending = t.pending[1:]
		e.dirty = false
		// The goroutine that decides on it now detects the change and decides again.
		if e.deciding || e.busy || t.entries[e.id] != e {
			continue
		}
		q := t.inputOf(e)
		e.deciding = true
		t.mu.Unlock()
		d := q.decide(now)
		t.mu.Lock()
		e.deciding = false
		switch {
		case t.entries[e.id] != e || e.busy:
		case e.generation != q.generation || t.stages != q.stages:
			t.reconsider(e)
		default:
			t.plan(now, e, &q, &d)
		}
	}
	t.pending = nil
}

// plan adds an entry to the heap according to a decision.
func (t *table) plan(now time.Time, e *entry, q *decisionInput, d *stage.Decision) {
	before := t.due.first()
	e.past.Stage, e.past.Since = "", time.Time{}
	if q.ours {
		e.past.Decided(d)
		t.report(now, e, d)
	}
	switch {
	case q.ours && !e.confirm.IsZero():
		t.due.set(e.id, e.confirm)
	case q.ours && d.Chosen():
		t.due.set(e.id, e.dueAt(d))
	default:
		t.due.remove(e.id)
	}
	if after := t.due.first(); !after.IsZero() && (before.IsZero() || after.Before(before)) {
		t.wake()
	}
}

// mostOverruns is how often a stage may exceed its budget, on any objects, before it is left out until it is
// changed.
const mostOverruns = 5

// overrun records that a stage exceeded its budget on an object.
func (t *table) overrun(e *entry, name, problem string) {
	t.reportTrouble(e, name, problem)
	if t.overran[name]++; t.overran[name] != mostOverruns {
		return
	}
	t.stages = t.stages.Without(name)
	t.leftOut(name, problem)
	for _, other := range t.entries {
		t.reconsider(other)
	}
}

// dueAt returns when a decision is due.
func (e *entry) dueAt(d *stage.Decision) time.Time {
	if e.waits != "" && e.waits != d.Stage {
		return d.Due
	}
	return later(d.Due, e.notBefore)
}

// writeBudget is the name under which a trouble about the write budget is recorded; no stage has this name.
const writeBudget = "write budget"

// report reports the problems of a decision.
func (t *table) report(now time.Time, e *entry, d *stage.Decision) {
	if d.Problem != "" {
		t.reportTrouble(e, d.Stage, d.Problem)
	}
	for _, o := range d.Overran {
		t.overrun(e, o.Stage, o.Problem)
	}
	for _, l := range d.LeftOut {
		if l.Problem != "" {
			t.reportTrouble(e, l.Stage, l.Problem)
		}
	}
	switch {
	case d.Slowed:
		a, b := e.past.Last, d.Stage
		if a > b {
			a, b = b, a
		}
		t.reportTroubleAs(e, writeBudget, d.Stage, fmt.Sprintf("%d stages wrote this object without a pause, the last two being %s and %s; "+
			"from now on one is played every %s: check whether each undoes the change of the other", stage.WriteBurst, a, b, stage.WriteEvery))
	case !e.past.Paid.After(now):
		delete(e.reported, writeBudget)
	}
}

// reportTrouble reports a trouble with a stage once, until another trouble or a success follows. Troubles that differ
// only in digits, such as a time that a template has rendered, are the same.
func (t *table) reportTrouble(e *entry, stage, text string) { t.reportTroubleAs(e, stage, stage, text) }

// reportTroubleAs is reportTrouble for a trouble that is recorded under a name other than its stage's.
func (t *table) reportTroubleAs(e *entry, name, stage, text string) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(stage + "\x00" + strings.Map(withoutDigits, text)))
	sum := h.Sum64()
	if name != stage {
		sum = 1 // about several stages
	}
	if last, ok := e.reported[name]; ok && last == sum {
		return
	}
	if e.reported == nil {
		e.reported = map[string]uint64{}
	}
	e.reported[name] = sum
	t.troubled(trouble{uid: e.uid, key: e.key, version: e.object.GetResourceVersion(), stage: stage, text: text})
}

func withoutDigits(r rune) rune {
	if r >= '0' && r <= '9' {
		return -1
	}
	return r
}

// doubt makes the engine read an object live.
func (t *table) requestRead(now time.Time, key objectKey) {
	defer t.settle(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.entries[t.names[key]]; e != nil && e.confirm.IsZero() {
		e.confirm = now
		t.reconsider(e)
	}
}

// batch is how many entries are processed before the lock is released for a moment.
const batch = 1000

// setStages replaces the stages, also for existing objects: each is decided again. A stage that stays chosen
// keeps its delay.
func (t *table) setStages(now time.Time, set *stage.Set) {
	t.mu.Lock()
	t.stages, t.overran = set, map[string]int{}
	all := make([]types.UID, 0, len(t.entries))
	for uid := range t.entries {
		all = append(all, uid)
	}
	t.mu.Unlock()
	for some := range slices.Chunk(all, batch) {
		t.mu.Lock()
		for _, uid := range some {
			if e := t.entries[uid]; e != nil {
				e.past.IdleAt, e.past.Idle = "", nil // an object without a due stage may have one now
				e.failures, e.rejections, e.notBefore = 0, 0, time.Time{}
				t.reconsider(e)
			}
		}
		t.mu.Unlock()
		t.settle(now)
	}
}

// set returns the current stages.
func (t *table) set() *stage.Set {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stages
}

// forgetKind drops every object of a kind that has no stages any more.
func (t *table) forgetKind(now time.Time, kind stage.Kind) {
	defer t.settle(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	for uid, e := range t.entries {
		if e.key.kind == kind {
			t.forgetLocked(uid)
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// size returns the number of known objects, and of those with a stage planned.
func (t *table) size() (known, planned int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.entries), t.due.len()
}
