package jobs

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// mostPods is the maximal number of pods that a Job of the family wants: every pod takes ten steps or more,
// and races need few pods.
const mostPods = 4

// Draw returns the case of a seed; the same one each time. Its spec is valid.
func Draw(seed int) Case {
	c := rapid.Custom(drawCase).Example(seed)
	c.Seed = seed
	return c
}

func drawCase(t *rapid.T) Case {
	c := Case{
		Fails: rapid.SampledFrom([]int{0, 0, 2, 4, 7}).Draw(t, "fails"),
		Slow:  rapid.SampledFrom([]int{0, 3, 6}).Draw(t, "slow"),
	}
	s := &c.Spec
	s.Parallelism = ptr.To(int32(rapid.IntRange(1, 3).Draw(t, "parallelism")))
	if rapid.Bool().Draw(t, "indexed") {
		drawIndexed(t, s)
	} else {
		s.CompletionMode = ptr.To(batchv1.NonIndexedCompletion)
		if n := rapid.SampledFrom([]int32{-1, 0, 1, 1, 2, 3, 3, mostPods}).Draw(t, "completions"); n >= 0 {
			s.Completions = ptr.To(n)
		}
	}
	if s.BackoffLimitPerIndex == nil {
		s.BackoffLimit = ptr.To(rapid.Int32Range(0, 2).Draw(t, "backoffLimit"))
	}
	if sometimes(t, 3, "podFailurePolicy") {
		drawFailurePolicy(t, s)
	}
	drawReplacement(t, s)
	if sometimes(t, 6, "activeDeadlineSeconds") {
		s.ActiveDeadlineSeconds = ptr.To(rapid.Int64Range(3, 30).Draw(t, "seconds"))
	}
	drawChanges(t, &c)
	c.Annotates = len(c.Changes) > 0 && rapid.Bool().Draw(t, "annotates")
	// Additions to the family are drawn last, so that the cases of recorded seeds stay otherwise the same.
	c.Late = rapid.SampledFrom([]int{0, 5, 9}).Draw(t, "late")
	drawAgain(t, &c)
	if len(c.Changes) == 0 && rapid.Bool().Draw(t, "dip") {
		drawDip(t, &c)
	}
	return c
}

// drawDip lets the user remove pods for a while: about when the first pods finish, some of whose statuses are
// late.
func drawDip(t *rapid.T, c *Case) {
	wait := time.Duration(rapid.IntRange(20, 80).Draw(t, "dip after")) * 100 * time.Millisecond
	less, more := `{"spec":{"suspend":true}}`, `{"spec":{"suspend":false}}`
	elastic := *c.Spec.CompletionMode == batchv1.IndexedCompletion && *c.Spec.Parallelism == *c.Spec.Completions
	if !elastic && *c.Spec.Parallelism > 1 && rapid.Bool().Draw(t, "fewer") {
		less, more = `{"spec":{"parallelism":1}}`, fmt.Sprintf(`{"spec":{"parallelism":%d}}`, *c.Spec.Parallelism)
	}
	c.Changes = append(c.Changes, Change{wait, less}, Change{time.Duration(rapid.IntRange(1, 9).Draw(t, "dip for")) * time.Second, more})
}

// drawAgain draws the creation of matching pods, and of a Job with the same name. A Job that is created
// suspended is not resumed a second time.
func drawAgain(t *rapid.T, c *Case) {
	wait := func(what string) time.Duration {
		return time.Duration(rapid.IntRange(1, 60).Draw(t, what)) * 100 * time.Millisecond
	}
	if sometimes(t, 6, "theirs") {
		c.Theirs = wait("theirs after")
	}
	if !sometimes(t, 4, "again") || c.Spec.Suspend != nil {
		return
	}
	c.Again = &Again{After: wait("again after"), Pause: wait("pause"), Orphans: !sometimes(t, 3, "background")}
	if rapid.Bool().Draw(t, "long pause") {
		c.Again.Pause += 40 * time.Second // every cache shows what was left
	}
	c.Again.Adopts = c.Again.Orphans && !sometimes(t, 3, "generated selector")
}

// sometimes is true once in n times.
func sometimes(t *rapid.T, n int, what string) bool { return rapid.IntRange(1, n).Draw(t, what) == n }

func drawIndexed(t *rapid.T, s *batchv1.JobSpec) {
	s.CompletionMode = ptr.To(batchv1.IndexedCompletion)
	s.Completions = ptr.To(rapid.Int32Range(1, mostPods).Draw(t, "completions"))
	if rapid.Bool().Draw(t, "elastic") {
		s.Parallelism = ptr.To(*s.Completions)
	}
	if sometimes(t, 3, "backoffLimitPerIndex") {
		s.BackoffLimitPerIndex = ptr.To(rapid.Int32Range(0, 1).Draw(t, "perIndex"))
		if rapid.Bool().Draw(t, "maxFailedIndexes") {
			s.MaxFailedIndexes = ptr.To(rapid.Int32Range(0, *s.Completions).Draw(t, "most"))
		}
	}
	if !sometimes(t, 3, "successPolicy") {
		return
	}
	rule := batchv1.SuccessPolicyRule{}
	last := *s.Completions - 1
	switch rapid.IntRange(0, 2).Draw(t, "rule") {
	case 0:
		rule.SucceededIndexes = ptr.To(fmt.Sprint(rapid.Int32Range(0, last).Draw(t, "index")))
	case 1:
		rule.SucceededCount = ptr.To(rapid.Int32Range(1, *s.Completions).Draw(t, "count"))
	default:
		rule.SucceededIndexes, rule.SucceededCount = ptr.To("0"), ptr.To[int32](1)
		if last > 0 {
			rule.SucceededIndexes = ptr.To(fmt.Sprintf("0-%d", last))
		}
	}
	s.SuccessPolicy = &batchv1.SuccessPolicy{Rules: []batchv1.SuccessPolicyRule{rule}}
}

func drawFailurePolicy(t *rapid.T, s *batchv1.JobSpec) {
	actions := []batchv1.PodFailurePolicyAction{batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore, batchv1.PodFailurePolicyActionCount}
	if s.BackoffLimitPerIndex != nil {
		actions = append(actions, batchv1.PodFailurePolicyActionFailIndex)
	}
	s.PodFailurePolicy = &batchv1.PodFailurePolicy{}
	for n := range rapid.IntRange(1, 2).Draw(t, "rules") {
		rule := batchv1.PodFailurePolicyRule{Action: rapid.SampledFrom(actions).Draw(t, "action")}
		if n == 0 && sometimes(t, 3, "onPodConditions") {
			rule.OnPodConditions = []batchv1.PodFailurePolicyOnPodConditionsPattern{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
		} else {
			rule.OnExitCodes = &batchv1.PodFailurePolicyOnExitCodesRequirement{
				Operator: batchv1.PodFailurePolicyOnExitCodesOpIn,
				Values:   []int32{rapid.SampledFrom(exitCodes).Draw(t, "code")},
			}
			if rapid.Bool().Draw(t, "named") {
				rule.OnExitCodes.ContainerName = ptr.To("main")
			}
		}
		s.PodFailurePolicy.Rules = append(s.PodFailurePolicy.Rules, rule)
	}
}

func drawReplacement(t *rapid.T, s *batchv1.JobSpec) {
	switch rapid.IntRange(0, 2).Draw(t, "podReplacementPolicy") {
	case 0:
		s.PodReplacementPolicy = ptr.To(batchv1.Failed)
	case 1:
		if s.PodFailurePolicy == nil { // with a failure policy it may only be Failed
			s.PodReplacementPolicy = ptr.To(batchv1.TerminatingOrFailed)
		}
	}
}

// drawChanges draws the changes of the user: suspensions and resumptions, changes of parallelism, or of both
// numbers of an elastic Job.
func drawChanges(t *rapid.T, c *Case) {
	wait := func() time.Duration {
		return time.Duration(rapid.IntRange(1, 80).Draw(t, "wait")) * 100 * time.Millisecond
	}
	change := func(format string, args ...any) {
		c.Changes = append(c.Changes, Change{wait(), fmt.Sprintf(`{"spec":`+format+`}`, args...)})
	}
	s := &c.Spec
	if sometimes(t, 5, "suspended at first") {
		s.Suspend = ptr.To(true)
		change(`{"suspend":false}`)
	}
	if !sometimes(t, 2, "changes") {
		return
	}
	elastic := *s.CompletionMode == batchv1.IndexedCompletion && *s.Parallelism == *s.Completions && s.SuccessPolicy == nil && s.MaxFailedIndexes == nil
	for range rapid.IntRange(1, 2).Draw(t, "number") {
		n := rapid.Int32Range(1, mostPods).Draw(t, "to")
		switch kind := rapid.IntRange(0, 2).Draw(t, "kind"); {
		case kind == 0:
			change(`{"suspend":true}`)
			change(`{"suspend":false}`)
		case kind == 1 && elastic:
			change(`{"parallelism":%d,"completions":%d}`, n, n)
		case elastic: // a change of parallelism alone would end its elasticity
		default:
			change(`{"parallelism":%d}`, n)
		}
	}
}
