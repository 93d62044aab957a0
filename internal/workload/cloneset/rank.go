package cloneset

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Spread contains what is needed to find pods that are close to each other, so that those with most neighbours
// are deleted first.
type Spread struct {
	// Constraints are those of the template.
	Constraints []corev1.TopologySpreadConstraint
	// Nodes are the labels of nodes by their names. If it is nil, they are unknown, and only pods on the same
	// node are neighbours.
	Nodes map[string]map[string]string
}

// rankForDeletion sorts pods in the order in which they are deleted: not on a node, not running, not
// available, not ready first; then lower deletion cost, more neighbours, ready for a shorter time, more
// restarts, younger, and finally by name. The order is Kruise's (ActivePodsWithRanks).
func rankForDeletion(now time.Time, pods []*Pod, minReady time.Duration, spread Spread) {
	all := sortKeys(pods)
	for i, p := range pods {
		class := uint64(uint32(p.deletionCost()) ^ 1<<31) // negative costs come first
		if ok, _ := p.available(now, minReady); ok {
			class |= 1 << 33
		}
		all[i].first |= class << classShift
	}
	var spare []sortKey
	sortByKey(all, pods, &spare)
	n := neighboursOf(all, pods)
	ranks := make([]float64, len(all))
	for i, place := range n.places(nil, n.nodes, len(n.names)) {
		ranks[i] = float64(max(place-1, 0)) // only other pods on the node count
	}
	order := byRank(all, ranks, &spare)
	if len(spread.Constraints) > 0 && spread.Nodes != nil {
		order = byRank(all, n.topologyRanks(order, spread), &spare)
	}
	for i := range order {
		order[i].at = all[order[i].at].at
	}
	arrange(pods, order)
}

// byRank inserts the number of neighbours after the class and before all other criteria. The at fields are
// then positions in the order without neighbours.
func byRank(all []sortKey, ranks []float64, spare *[]sortKey) []sortKey {
	order := make([]sortKey, len(all))
	for i, w := range all {
		// The bits of non-negative floats have the same order as the numbers.
		order[i] = sortKey{first: w.first >> classShift, second: ^math.Float64bits(ranks[i]), at: int32(i)}
	}
	sortNumbers(order, spare)
	return order
}

// neighbours contains the nodes of pods as numbers. A pod is identified by its position.
type neighbours struct {
	names []string
	nodes []int32 // each its own number: the domains of the pods on the same node
	of    []int32 // position -> node, or none
}

const none = -1

func neighboursOf(all []sortKey, pods []*Pod) (n neighbours) {
	numbers := make(map[string]int32, len(all)/8) // several pods per node
	n.of = make([]int32, len(all))
	for i := range all {
		name := pods[all[i].at].Node
		if name == "" {
			n.of[i] = none
			continue
		}
		number, ok := numbers[name]
		if !ok {
			number = int32(len(numbers))
			numbers[name] = number
			n.names, n.nodes = append(n.names, name), append(n.nodes, number)
		}
		n.of[i] = number
	}
	return n
}

// places returns each pod's place in its domain, by position: the last pod in the order (nil: by position) has
// 1, the one before it 2. A pod in no domain has 0.
func (n *neighbours) places(order []sortKey, domains []int32, count int) []int32 {
	seen := make([]int32, count)
	places := make([]int32, len(n.of))
	for i := len(n.of) - 1; i >= 0; i-- {
		at := i
		if order != nil {
			at = int(order[i].at)
		}
		node := n.of[at]
		if node == none || domains[node] == none {
			continue
		}
		seen[domains[node]]++
		places[at] = seen[domains[node]]
	}
	return places
}

// topologyRanks adds up a pod's places under all constraints. A constraint weighs more the more domains it
// has. Within domains of several nodes, pods with neighbours on their node come first.
func (n *neighbours) topologyRanks(byNode []sortKey, spread Spread) []float64 {
	ranks := make([]float64, len(n.of))
	domains := make([]int32, len(n.names))
	for _, c := range spread.Constraints {
		numbers := map[string]int32{}
		for node, name := range n.names {
			domains[node] = none
			if value, ok := spread.Nodes[name][c.TopologyKey]; ok {
				number, ok := numbers[value]
				if !ok {
					number = int32(len(numbers))
					numbers[value] = number
				}
				domains[node] = number
			}
		}
		order := byNode
		if c.TopologyKey == corev1.LabelHostname {
			order = nil
		}
		weight := math.Log(float64(len(numbers) + 2))
		for i, place := range n.places(order, domains, len(numbers)) {
			ranks[i] += float64(place) * weight
		}
	}
	return ranks
}
