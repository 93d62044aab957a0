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

// orderForUpdate sorts pods in the order in which they are updated: first by readiness, as Kubernetes sorts
// ActivePods; within each class by the user's priorities; then it scatters pods. Deletion cost, availability
// and neighbours have no influence.
//
// others are the active pods that are already updated. scatter needs them to know how far the scattering has
// come; without them each plan would start again with the remaining pods.
func orderForUpdate(pods []*Pod, strategy *v1alpha1.CloneSetUpdateStrategy, others ...*Pod) {
	order := sortKeys(pods)
	sortByKey(order, pods, new([]sortKey))
	arrange(pods, order)
	prioritize(pods, strategy.PriorityStrategy)
	scatter(pods, others, strategy.ScatterStrategy)
}

// prioritize sorts by weights or, if there are none, by the order of keys. Equal pods keep their order, which
// Kruise reverses.
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

// byWeight adds up the weights of all terms that match. A selector that cannot be parsed matches nothing.
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

// byKeys uses the first key that the pod has. A pod without any key precedes all others.
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

// trailingNumber returns the number at the end of a text, 0 if there is none or if it is too large.
func trailingNumber(s string) int64 {
	n, err := strconv.ParseInt(s[len(strings.TrimRight(s, "0123456789")):], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// scatter spreads the pods that have a label among those that do not, for one label after the other. It starts
// with the label of most pods, so that the others undo as little as possible.
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

// scatterThese merges pods with a label into those without it so that, at each point, the same share of both
// is left, and the last pod with the label is at the end: there are outdated pods with the label as long as
// there are outdated pods at all. Of all pods, updated ones included, allWith have the label and allWithout do
// not.
//
// The next pod depends only on what is left and on all pods, not on earlier calls: updating the pods one by
// one gives the same order as all at once. Kruise builds groups of one size and restarts whenever the pods
// with the label lag behind.
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
