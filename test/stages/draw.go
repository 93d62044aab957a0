package stages

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rehearse-k8s/rehearse/stage"
	"github.com/rehearse-k8s/rehearse/test/family"
)

// Case is one set of stages, and the actions on the pods that it applies to.
type Case struct {
	// Seed is the seed from which the case is drawn.
	Seed int
	// Ranks is the last rank of a pod.
	Ranks int
	// Stages is the set, as YAML.
	Stages []string
	// Reject are requests that the API rejects.
	Reject []Rejection
	Pods   int
	Acts   []Act
	// Mover: another controller moves a pod on by two ranks as soon as a stage has written its first half.
	Mover bool
	// Delete: the users delete all pods in the end.
	Delete bool
}

// Rejection is what an admission webhook rejects: the status patches of one stage.
type Rejection struct {
	Stage string
	Code  int
	Times int // 0: each time
}

// Act is an action of a user or another writer on a pod, some time after the previous act.
type Act struct {
	After time.Duration
	Pod   int
	Kind  ActKind
	By    int // ranks to move on by
}

// ActKind is the kind of an act.
type ActKind string

// The kinds of acts.
const (
	// ActLabel changes a label that no stage reads.
	ActLabel ActKind = "label"
	// ActMoveOn patches the status to a higher rank, if the rank has not changed since it was read.
	ActMoveOn ActKind = "move on"
	// ActLatePatch patches a condition into the status, without a resourceVersion.
	ActLatePatch ActKind = "late patch"
	// ActRecreate deletes the pod and creates another one with the same name.
	ActRecreate ActKind = "recreate"
)

// Draws returns the cases of n consecutive seeds.
func Draws(from, n int) []Case { return family.Draws(Draw, from, n) }

// String returns the case as text.
func (c Case) String() string {
	text := fmt.Sprintf("case %d: %d pods, %d ranks, deleted in the end: %v, with a mover: %v\n%s", c.Seed, c.Pods, c.Ranks, c.Delete, c.Mover, strings.Join(c.Stages, ""))
	for _, r := range c.Reject {
		text += fmt.Sprintf("status patches of stage %s are answered %d, %d times (0: each time)\n", r.Stage, r.Code, r.Times)
	}
	for _, a := range c.Acts {
		text += fmt.Sprintf("after %s: %s of pod %d by %d\n", a.After, a.Kind, a.Pod, a.By)
	}
	return text
}

// Set compiles the stages.
func (c Case) Set() (*stage.Set, error) {
	stages, err := stage.Load("case.yaml", []byte(strings.Join(c.Stages, "")))
	if err != nil {
		return nil, err
	}
	return stage.Compile(stages)
}

// drawing is the state of drawing one case.
type drawing struct {
	*rand.Rand
	c Case
	n int // number of stages so far
}

// Draw returns the case of a seed.
func Draw(seed int) Case {
	d := &drawing{Rand: rand.New(rand.NewPCG(uint64(seed), 20)), c: Case{Seed: seed}}
	d.c.Ranks, d.c.Pods, d.c.Delete = 1+d.IntN(3), 1+d.IntN(2), d.IntN(2) == 0
	d.c.Mover = d.IntN(3) == 0
	for rank := range d.c.Ranks {
		d.sound(rank)
	}
	for range 1 + d.IntN(4) {
		d.rival(d.IntN(d.c.Ranks))
	}
	if d.c.Mover {
		d.moved()
	}
	if d.IntN(4) == 0 {
		d.undoing()
	}
	d.ends()
	for range d.IntN(4) {
		kind := []ActKind{ActLabel, ActMoveOn, ActMoveOn, ActLatePatch, ActRecreate}[d.IntN(5)]
		d.c.Acts = append(d.c.Acts, Act{After: time.Duration(1+d.IntN(40)) * 250 * time.Millisecond, Pod: d.IntN(d.c.Pods), Kind: kind, By: 1 + d.IntN(2)})
	}
	return d.c
}

// add writes one stage and returns its name.
func (d *drawing) add(kind, selector string, weight int, delay, effect string) string {
	d.n++
	name := fmt.Sprintf("%s-%d", kind, d.n)
	d.c.Stages = append(d.c.Stages, fmt.Sprintf(`---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: %s}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector: {matchExpressions: [%s]}
  weight: %d
%s%s`, name, selector, weight, delay, strings.ReplaceAll(effect, "NAME", name)))
	return name
}

const (
	alive    = "{key: .metadata.deletionTimestamp, operator: DoesNotExist}"
	deleting = "{key: .metadata.deletionTimestamp, operator: Exists}"
)

// at selects the pods of a rank.
func at(rank int) string {
	if rank == 0 {
		return "{key: .status.message, operator: DoesNotExist}"
	}
	return fmt.Sprintf("{key: .status.message, operator: In, values: [r%d]}", rank)
}

func (d *drawing) delay() string {
	switch d.IntN(4) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("  delay: {durationMilliseconds: %d, jitterDurationMilliseconds: %d}\n", 500*d.IntN(4), 1000+500*d.IntN(10))
	}
	return fmt.Sprintf("  delay: {durationMilliseconds: %d}\n", 500*(1+d.IntN(12)))
}

// status returns the status of a pod at a rank.
func status(rank int) string {
	return fmt.Sprintf("message: r%d, phase: Running, podIP: 10.0.0.9, podIPs: [{ip: 10.0.0.9}]", rank)
}

// sound adds the stage that moves a pod from a rank to the next, whatever others do.
func (d *drawing) sound(rank int) {
	d.add("sound", at(rank)+", "+alive, 1+d.IntN(3), d.delay(), fmt.Sprintf("  next: {statusTemplate: '{%s}'}\n", status(rank+1)))
}

// rival adds a stage that competes with the sound one.
func (d *drawing) rival(rank int) {
	selector := at(rank)
	if d.IntN(3) > 0 {
		selector += ", " + alive
	}
	switch d.IntN(9) {
	case 0:
		d.add("hungry", selector+", {key: '"+expensiveProgram+"', operator: Exists}", 1+d.IntN(3), "", "  steps: [{patch: {type: merge, root: metadata, template: 'labels: {hungry: x}'}}]\n")
	case 1, 2:
		delay := []string{"", "  delay: {durationMilliseconds: 2000}\n", "  delay: {durationMilliseconds: 36000000}\n"}[d.IntN(3)]
		d.add("idle", selector, 1+d.IntN(1000), delay, "  steps: [{patch: {type: merge, root: metadata, template: 'labels: {app: x}'}}]\n")
	case 3, 4:
		d.add("held", selector, 1+d.IntN(1000), "  delay: {durationFrom: {jq: {expression: '\"soon\"'}}}\n", fmt.Sprintf("  next: {statusTemplate: '{%s}'}\n", status(rank+1)))
	default:
		d.halves(rank, selector)
	}
}

// expensiveProgram is a jq program that runs for minutes without a budget, and needs no memory.
const expensiveProgram = "[range(3000)] as $a | reduce range(300) as $i (0; . + ($a - [range(3000) + 5000] | length))"

// halves adds a stage of two requests, the second of which may be rejected.
func (d *drawing) halves(rank int, selector string) {
	first := "  - patch: {type: merge, root: metadata, template: 'labels: {half-NAME: x}'}\n"
	switch d.IntN(4) {
	case 0:
		first = "  - finalizers: {add: [{value: example.com/stage}]}\n"
	case 1:
		selector += fmt.Sprintf(", {key: '.metadata.labels[\"half-halves-%d\"]', operator: DoesNotExist}", d.n+1)
	}
	name := d.add("halves", selector, 1+d.IntN(2), d.delay(), "  steps:\n"+first+
		fmt.Sprintf("  - patch: {type: merge, subresource: status, root: status, template: '{reason: NAME, %s}'}\n", status(rank+1)))
	if d.IntN(3) > 0 {
		d.c.Reject = append(d.c.Reject, Rejection{Stage: name, Code: []int{403, 422, 422, 500}[d.IntN(4)], Times: []int{0, 0, 1, 2, 4}[d.IntN(5)]})
	}
}

// moved adds a stage at rank 0 whose second half is rejected once or twice, so that the mover has moved the
// pod on when it is tried again.
func (d *drawing) moved() {
	name := d.add("halves", at(0)+", "+alive, 100, "", "  steps:\n  - patch: {type: merge, root: metadata, template: 'labels: {half-NAME: x}'}\n"+
		fmt.Sprintf("  - patch: {type: merge, subresource: status, root: status, template: '{reason: NAME, %s}'}\n", status(1)))
	d.c.Reject = append(d.c.Reject, Rejection{Stage: name, Code: 403, Times: 1 + d.IntN(2)})
}

// undoing adds two stages without delay that undo each other's changes. They never end before the pod does,
// unless the rank has a stage of its own.
func (d *drawing) undoing() {
	rank := d.c.Ranks
	if d.IntN(3) == 0 {
		rank = d.IntN(d.c.Ranks)
	} else {
		d.c.Delete = true
	}
	flip := "{key: .metadata.labels.flip, operator: %s}"
	d.add("flip", at(rank)+", "+alive+", "+fmt.Sprintf(flip, "DoesNotExist"), 1+d.IntN(3), "", "  steps: [{patch: {type: merge, root: metadata, template: 'labels: {flip: x}'}}]\n")
	d.add("flop", at(rank)+", "+alive+", "+fmt.Sprintf(flip, "Exists"), 1+d.IntN(3), "", "  steps: [{patch: {type: merge, root: metadata, template: 'labels: {flip: null}'}}]\n")
}

// ends adds the stages that delete a pod after its deletion was requested.
func (d *drawing) ends() {
	wait := []string{"", "  delay: {durationMilliseconds: 1500}\n"}[d.IntN(2)]
	d.add("gone", deleting+", {key: .metadata.finalizers, operator: DoesNotExist}", 1, wait, "  next: {delete: true}\n")
	d.add("release", deleting+", {key: '.metadata.finalizers[]', operator: In, values: [example.com/stage]}", 1, "",
		"  steps:\n  - finalizers: {remove: [{value: example.com/stage}]}\n  - delete: true\n")
}
