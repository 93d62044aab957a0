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

// Times of the table. Each is a trade between load and how soon a thing that
// should not have happened is put right.
const (
	// confirmAfter is how long the informer may take to show the reason of a conflict or a 404 before the
	// object is read live.
	confirmAfter = time.Second
	// confirmDelete is the same after a delete that succeeded.
	confirmDelete = 5 * time.Second
	// backoffFirst and backoffMost bound the wait after a failed write: it
	// doubles from the first to the most, times a keyed factor in [0.5, 1).
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
	// wake is called, under the lock, when the next due time may have moved
	// forward. It must not block.
	wake func()
	// leftOut is called, under the lock, when a stage is left out because it did too
	// much mostOverruns times. It must not block.
	leftOut func(stage, problem string)

	mu      sync.Mutex
	pending []*entry             // to be decided on
	overran map[string]int       // how often a stage did too much
	entries map[types.UID]*entry // by their id
	names   map[objectKey]types.UID
	podsOf  map[string]map[types.UID]*entry
	due     *agenda[types.UID]
}

type objectKey struct {
	kind            stage.Kind
	namespace, name string
}

// entry is what is known of one object.
type entry struct {
	id, uid types.UID
	key     objectKey
	object  stage.Object // the newest version seen
	version uint64       // its resourceVersion
	node    string       // of a pod
	managed bool         // of a node
	ready   bool         // of a node

	// listed is true for a version that was there when the engine started.
	listed bool
	// past.Stage is the stage the last decision chose.
	past stage.Past

	// busy is true from when the entry is handed out until its outcome is in.
	// Meanwhile newer versions are kept and nothing is decided.
	busy bool
	// generation counts the changes of what a decision is made of; dirty is true for an
	// entry that is pending, deciding while a decision is being made.
	generation      uint64
	dirty, deciding bool
	// failures and rejections in a row, and the time before which nothing is tried;
	// waits names the only stage that it is for, and is empty for all.
	failures, rejections int
	notBefore            time.Time
	waits                string
	// confirm is when the object is to be read live because the API said that
	// what is known of it is old; zero when nothing is to be confirmed.
	confirm time.Time
	// rejection is why the API rejected the last write as outdated, and rejectedStage the stage of that
	// write. reported has a hash of the last reported trouble of each stage, so that each is reported once.
	rejection, rejectedStage string
	reported                 map[string]uint64
}

// trouble is what keeps a stage of an object from going as it should.
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

// idOf is what an object is known by. Stages may be for several versions of a kind, each of which
// is watched by itself and shows every object.
func idOf(o stage.Object) types.UID {
	kind := stage.KindOf(o)
	if kind == stage.KindPod || kind == stage.KindNode {
		return o.GetUID()
	}
	return o.GetUID() + "@" + types.UID(kind.APIVersion)
}

// unordered is the revision of a resourceVersion that is no number.
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

// observe takes in a version of an object, from the informer or from the answer
// to a write. Versions that are not newer are ignored, as is what is known to
// be gone under that name. listed is true for what was there when the engine
// started: its delays count from the object's own last change.
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
		e.object = o // the cache's own, so that there is one in memory
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

// placePod files a pod under its node.
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

// forget drops the object with this id and everything that was planned for it.
func (t *table) forget(now time.Time, id types.UID) {
	defer t.settle(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.forgetLocked(id)
}

// forgetName drops whatever is known under a name; for a delete that the
// informer found out about without ever seeing the object.
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

// host is the node a pod stands on, or nil when it is not managed.
func (t *table) host(e *entry) *entry {
	n := t.entries[t.names[objectKey{kind: stage.KindNode, name: e.node}]]
	if n == nil || !n.managed {
		return nil
	}
	return n
}

// question is all that the decision on an entry is made of.
type question struct {
	stages *stage.Set
	seed   uint64
	object stage.Object
	past   stage.Past
	scene  stage.Scene
	listed bool
	ours   bool // false for objects that are not ours

	generation uint64
}

// ask takes down the question about the newest version of an entry.
func (t *table) ask(e *entry) question {
	q := question{stages: t.stages, seed: t.seed, object: e.object, past: e.past, listed: e.listed, ours: true, generation: e.generation}
	switch e.key.kind {
	case stage.KindPod:
		host := t.host(e)
		if q.ours = host != nil; q.ours {
			q.scene.NodeReady = host.ready
		}
	case stage.KindNode:
		q.ours = e.managed
	default:
		// Of other kinds every object is played, by the shard that has its UID.
		q.ours = t.owns(string(e.uid))
	}
	return q
}

// decide answers the question; it needs no lock. In the answer of what was there when the
// engine started, the delay of a stage counts from the object's own last change.
func (q *question) decide(now time.Time) stage.Decision {
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

// reconsider adds an entry to pending, for the next call of settle. Each entry that is not done ends up in the
// heap of due times, or is busy.
func (t *table) reconsider(e *entry) {
	e.generation++
	if !e.busy && !e.dirty {
		e.dirty = true
		t.pending = append(t.pending, e)
	}
}

// settle decides on every entry that is pending.
func (t *table) settle(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.pending) > 0 {
		e := t.pending[0]
		t.pending = t.pending[1:]
		e.dirty = false
		// Who decides on it now sees that it has changed, and does so again.
		if e.deciding || e.busy || t.entries[e.id] != e {
			continue
		}
		q := t.ask(e)
		e.deciding = true
		t.mu.Unlock()
		d := q.decide(now)
		t.mu.Lock()
		e.deciding = false
		switch {
		case t.entries[e.id] != e || e.busy:
		case e.generation != q.generation:
			t.reconsider(e)
		default:
			t.plan(now, e, &q, &d)
		}
	}
	t.pending = nil
}

// plan puts an entry where a decision says.
func (t *table) plan(now time.Time, e *entry, q *question, d *stage.Decision) {
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

// mostOverruns is how often a stage may do too much, on whatever objects, before it is
// left out until it is changed.
const mostOverruns = 5

// overrun takes in that a stage did too much on an object.
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

// dueAt is when a decision is to be played.
func (e *entry) dueAt(d *stage.Decision) time.Time {
	if e.waits != "" && e.waits != d.Stage {
		return d.Due
	}
	return later(d.Due, e.notBefore)
}

// spent is what a trouble about the budget of writes is filed under; no stage has
// such a name.
const spent = "write budget"

// report passes on what is wrong with a decision.
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
		t.reportTroubleAs(e, spent, d.Stage, fmt.Sprintf("%d stages wrote this object without a pause, the last two being %s and %s; "+
			"from now on one is played every %s: does each undo what the other did?", stage.WriteBurst, a, b, stage.WriteEvery))
	case !e.past.Paid.After(now):
		delete(e.reported, spent)
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
		sum = 1 // about more than one stage
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
func (t *table) doubt(now time.Time, key objectKey) {
	defer t.settle(now)
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.entries[t.names[key]]; e != nil && e.confirm.IsZero() {
		e.confirm = now
		t.reconsider(e)
	}
}

// batch is how many entries are gone through before others may have the lock.
const batch = 1000

// setStages makes set what is played from now on, also for the objects that are
// there: each is decided again. A stage that stays chosen keeps its delay.
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
				e.past.IdleAt, e.past.Idle = "", nil // what had nothing to do may have now
				e.failures, e.rejections, e.notBefore = 0, 0, time.Time{}
				t.reconsider(e)
			}
		}
		t.mu.Unlock()
		t.settle(now)
	}
}

// set is what is played now.
func (t *table) set() *stage.Set {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stages
}

// forgetKind drops every object of a kind that no stage is for any more.
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

// size is the number of objects known and of those with something planned.
func (t *table) size() (known, planned int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.entries), t.due.len()
}
