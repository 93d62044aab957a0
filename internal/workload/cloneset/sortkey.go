package cloneset

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// worth is what pods are compared by: two numbers, the first of which counts more.
// Whatever is less goes first. They are taken from a pod once and then sorted as numbers,
// because 10,000 pods are compared with each other more than 100,000 times.
type sortKey struct {
	first, second uint64
	// at is the place where the pod is found. A pointer would cost as much as the sorting.
	at int32
}

// sortKeys are those of pods, at their places.
func sortKeys(pods []*Pod) []sortKey {
	all := make([]sortKey, len(pods))
	for i, p := range pods {
		all[i] = sortKeyOf(p)
		all[i].at = int32(i)
	}
	return all
}

// arrange puts pods into the order of their sortKeys.
func arrange(pods []*Pod, order []sortKey) {
	from := slices.Clone(pods)
	for i := range order {
		pods[i] = from[order[i].at]
	}
}

// sortKeyOf holds, in this order: whether it is on a node (1 bit), its phase (2), whether it
// is available (1) and ready (1), what its deletion costs (32), how long it is ready (32),
// how few restarts it has had (27), how old it is (32). Availability and costs are for who
// deletes; they are left out.
func sortKeyOf(p *Pod) sortKey {
	var class, ready uint64
	if p.Node != "" {
		class |= 1 << 36
	}
	switch p.Phase {
	case corev1.PodRunning:
		class |= 2 << 34
	case corev1.PodUnknown:
		class |= 1 << 34
	}
	if p.ready() {
		class |= 1 << 32
		ready = age(p.Ready.Since)
	}
	const most = 1<<27 - 1
	spotless := uint64(most - min(p.restarts(), most))
	return sortKey{first: class<<classShift | ready>>5, second: ready<<59 | spotless<<32 | age(p.Created)}
}

// classShift is where, in first, those begin that count more than neighbours do.
const classShift = 27

// age is more for earlier times, to the second (the API keeps no more). One that is not
// known is later than any other.
func age(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(math.MaxUint32 - max(0, min(t.Unix(), math.MaxUint32-1)))
}

// sortByKey sorts, and those that are worth the same by their names: else, who goes
// first would be the order in which a cache happens to list them. A plan has them sorted by
// name already; that is kept.
func sortByKey(all []sortKey, pods []*Pod, spare *[]sortKey) {
	byName := func(a, b sortKey) int { return strings.Compare(pods[a.at].Name, pods[b.at].Name) }
	if !slices.IsSortedFunc(all, byName) {
		slices.SortFunc(all, byName)
	}
	sortNumbers(all, spare)
}

func compareNumbers(a, b sortKey) int {
	if c := cmp.Compare(a.first, b.first); c != 0 {
		return c
	}
	return cmp.Compare(a.second, b.second)
}

// sortNumbers sorts by the numbers alone and leaves what is the same in its order. Many
// are sorted byte by byte, the last first; most bytes are the same in all and cost nothing.
// spare is as much memory again, made when it is needed and kept for the next one.
func sortNumbers(all []sortKey, spare *[]sortKey) {
	if len(all) < 200 {
		slices.SortStableFunc(all, compareNumbers)
		return
	}
	var first, second uint64
	for i := range all {
		first |= all[i].first ^ all[0].first
		second |= all[i].second ^ all[0].second
	}
	if first|second == 0 {
		return
	}
	if len(*spare) < len(all) {
		*spare = make([]sortKey, len(all))
	}
	from, to := all, (*spare)[:len(all)]
	pass := func(differ uint64, number func(*sortKey) uint64) {
		for shift := 0; differ>>shift != 0; shift += 8 {
			if differ>>shift&0xff == 0 {
				continue
			}
			var at [256]int
			for i := range from {
				at[number(&from[i])>>shift&0xff]++
			}
			sum := 0
			for digit, n := range at {
				at[digit], sum = sum, sum+n
			}
			for i := range from {
				digit := number(&from[i]) >> shift & 0xff
				to[at[digit]] = from[i]
				at[digit]++
			}
			from, to = to, from
		}
	}
	pass(second, func(w *sortKey) uint64 { return w.second })
	pass(first, func(w *sortKey) uint64 { return w.first })
	if &from[0] != &all[0] {
		copy(all, from)
	}
}
