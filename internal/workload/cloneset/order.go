package cloneset

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// orderForUpdate puts those first that are to be updated first: those of least use, as
// Kubernetes has it (ActivePods); of all those the ones that the user gave priority; and
// then what is to be scattered is. Neither costs of deletion nor availability nor
// neighbours count.
//
// others are the active pods that are up to date. How many of them were scattered tells
// how far the scattering has come: without them, each plan would begin it anew with what
// is left.
func orderForUpdate(pods []*Pod, strategy *v1alpha1.CloneSetUpdateStrategy, others ...*Pod) {
	order := sortKeys(pods)
	sortByKey(order, pods, new([]sortKey))
	arrange(pods, order)
	prioritize(pods, strategy.PriorityStrategy)
	scatter(pods, others, strategy.ScatterStrategy)
}

// prioritize sorts by weights or, if there are none, by the order of keys. What is the
// same stays in its order, which Kruise turns around.
func prioritize(pods []*Pod, strategy *kruise.UpdatePriorityStrategy) {
	if strategy == nil || len(strategy.WeightPriority)+len(strategy.OrderPriority) == 0 {
		return
	}
	type priority struct {
		level, number int64
		pod           *Pod
	}
	of := byWeight(strategy.WeightPriority)
	if len(strategy.WeightPriority) == 0 {
		of = byKeys(strategy.OrderPriority)
	}
	all := make([]priority, len(pods))
	for i, p := range pods {
		level, number := of(p.Labels)
		all[i] = priority{level, number, p}
	}
	slices.SortStableFunc(all, func(a, b priority) int {
		if a.level != b.level {
			return cmp.Compare(a.level, b.level)
		}
		return cmp.Compare(b.number, a.number)
	})
	for i := range all {
		pods[i] = all[i].pod
	}
}

// byWeight adds up the weights of all terms that match. A selector that cannot be read
// matches nothing.
func byWeight(terms []kruise.UpdatePriorityWeightTerm) func(labels.Set) (level, weight int64) {
	selectors := make([]labels.Selector, len(terms))
	for i := range terms {
		selector, err := metav1.LabelSelectorAsSelector(&terms[i].MatchSelector)
		if err != nil {
			selector = labels.Nothing()
		}
		selectors[i] = selector
	}
	return func(set labels.Set) (_, weight int64) {
		for i, selector := range selectors {
			if selector.Matches(set) {
				weight += int64(terms[i].Weight)
			}
		}
		return 0, weight
	}
}

// byKeys looks at the first key that is there. Without any, a pod is before all others.
func byKeys(terms []kruise.UpdatePriorityOrderTerm) func(labels.Set) (level, number int64) {
	return func(set labels.Set) (int64, int64) {
		for i, term := range terms {
			if value, ok := set[term.OrderedKey]; ok {
				return int64(i), trailingNumber(value)
			}
		}
		return -1, 0
	}
}

// trailingNumber is the number that a text ends with, 0 if there is none or if it is too
// large to be one.
func trailingNumber(s string) int64 {
	n, err := strconv.ParseInt(s[len(strings.TrimRight(s, "0123456789")):], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// scatter spreads the pods that have a label among those that have not, for one label
// after the other. The label of most pods is first, so that the others do not undo more
// than they must.
func scatter(pods, others []*Pod, terms []kruise.UpdateScatterTerm) {
	type term struct {
		kruise.UpdateScatterTerm
		pods int
	}
	all := make([]term, 0, len(terms))
	for _, t := range terms {
		if !slices.ContainsFunc(all, func(u term) bool { return u.UpdateScatterTerm == t }) {
			all = append(all, term{t, count(pods, t)})
		}
	}
	slices.SortStableFunc(all, func(a, b term) int { return cmp.Compare(b.pods, a.pods) })
	for _, t := range all {
		with := make([]*Pod, 0, t.pods)
		without := make([]*Pod, 0, len(pods)-t.pods)
		for _, p := range pods {
			if matches(p, t.UpdateScatterTerm) {
				with = append(with, p)
			} else {
				without = append(without, p)
			}
		}
		done := count(others, t.UpdateScatterTerm)
		scatterThese(pods, with, without, len(with)+done, len(without)+len(others)-done)
	}
}

func matches(p *Pod, t kruise.UpdateScatterTerm) bool {
	value, ok := p.Labels[t.Key]
	return ok && value == t.Value
}

func count(pods []*Pod, t kruise.UpdateScatterTerm) (n int) {
	for _, p := range pods {
		if matches(p, t) {
			n++
		}
	}
	return n
}

// scatterThese puts pods with a label among those without it so that of both, always as
// large a part is left to be updated as of the other, and the last one with the label at
// the end: there it is represented among the old pods for as long as there are any. Of
// all pods, also those that are up to date, allWith have the label and allWithout have not.
//
// What comes next depends on what is left and on all there is, not on how often this was
// asked; an update of one pod after the other takes them in the same order as one at once.
// Kruise makes groups of one size, and begins anew whenever those with the label are
// behind.
func scatterThese(to, with, without []*Pod, allWith, allWithout int) {
	if len(with) == 0 || allWith < 2 || allWithout < 2 {
		return
	}
	to = to[:0]
	rest, last := with[:len(with)-1], with[len(with)-1]
	for i, p := range rest {
		for left := len(rest) - i; len(without)*(allWith-1) > left*allWithout; without = without[1:] {
			to = append(to, without[0])
		}
		to = append(to, p)
	}
	to = append(to, without...)
	_ = append(to, last) // in the array of pods
}
