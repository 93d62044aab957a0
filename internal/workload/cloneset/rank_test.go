package cloneset

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// rankedPod creates a pod from words: its phase (P, U, R), "on=NODE", "ready" or "ready=SECONDS" ago,
// "restarts=N" of one container, "cost=X", "age=SECONDS", "updating", "preparing".
func rankedPod(name, words string) *Pod {
	p := &Pod{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{}}
	for _, word := range strings.Fields(words) {
		key, value, _ := strings.Cut(word, "=")
		n, _ := strconv.Atoi(value)
		ago := noon.Add(-time.Duration(n) * time.Second)
		switch key {
		case "P":
			p.Phase = corev1.PodPending
		case "U":
			p.Phase = corev1.PodUnknown
		case "R":
			p.Phase = corev1.PodRunning
		case "on":
			p.Node = value
		case "ready":
			p.Ready.Status = corev1.ConditionTrue
			if value != "" {
				p.Ready.Since = ago
			}
		case "restarts":
			p.Statuses = append(p.Statuses, Status{Name: fmt.Sprint(len(p.Statuses)), Restarts: n})
		case "cost":
			p.DeletionCost = value
		case "age":
			p.Created = ago
		case "updating":
			p.state = kruise.StateUpdating
			p.InPlace.Status = corev1.ConditionFalse
		case "preparing":
			p.state = kruise.StatePreparingUpdate
		default:
			panic(word)
		}
	}
	return p
}

func names(pods []*Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Name)
	}
	return strings.Join(all, " ")
}

// checkChain checks that pods are sorted into the given order from any other order.
func checkChain(t *testing.T, words []string, order func([]*Pod)) {
	t.Helper()
	var pods []*Pod
	for i, w := range words {
		pods = append(pods, rankedPod(fmt.Sprintf("%02d", i), w))
	}
	shuffle := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		got := slices.Clone(pods)
		shuffle.Shuffle(len(got), func(i, k int) { got[i], got[k] = got[k], got[i] })
		order(got)
		if !slices.Equal(got, pods) {
			t.Fatalf("%s", names(got))
		}
	}
}

// TestRankForDeletion checks a chain of pods, each deleted before the next. It contains all pairs of Kruise's
// pod_sorter_test.go.
func TestRankForDeletion(t *testing.T) {
	t.Run("one after the other", func(t *testing.T) {
		checkChain(t, []string{
			"P", "U", "R", "R ready=90", // on no node
			"P on=n", "P on=n", // equal: by name
			"U on=n",
			"R on=n cost=-5", "R on=n restarts=3", "R on=n restarts=1 restarts=2",
			"R on=n ready=9 updating", // not ready: its readiness gate is false
			"R on=n age=5", "R on=n age=9", "R on=n cost=5",
			"R on=n ready=10 age=99", "R on=n ready=29", // for less than half a minute
			"R on=n ready=99 preparing",                                              // for longer, but not Normal
			"R on=n ready cost=-10", "R on=n ready=99 cost=-9", "R on=n ready age=9", // for an unknown time
			"R on=n ready=31 restarts=9001 age=31", "R on=n ready=31 age=31", "R on=n ready=31 age=60", "R on=n ready=60 age=60",
			"R on=n ready=31 cost=10", "R on=n ready=31 cost=100",
		}, func(pods []*Pod) {
			// Pods on the same node are in their order in any case: that of the neighbours.
			rankForDeletion(noon, pods, 30*time.Second, Spread{})
		})
	})
	t.Run("a cost that is no number is 0", func(t *testing.T) {
		checkChain(t, []string{"R cost=-1", "R cost=", "R cost=+10", "R cost=008", "R cost=1x", "R cost=99999999999", "R cost=0", "R", "R cost=1"}, func(pods []*Pod) {
			rankForDeletion(noon, pods, 0, Spread{})
		})
	})
	t.Run("none", func(*testing.T) { rankForDeletion(noon, nil, 0, Spread{}) })
}

// TestOrderByUse checks that, without a strategy, availability, deletion cost and neighbours have no influence
// on the order of updates.
func TestOrderByUse(t *testing.T) {
	checkChain(t, []string{
		"P", "U", "R", "R ready=90", "P on=n", "U on=n",
		"R on=n cost=9 restarts=3", "R on=n restarts=2 cost=-9", "R on=n age=5", "R on=n age=9 updating ready=1",
		"R on=n ready cost=9", "R on=n ready=1", "R on=n ready=9 restarts=1", "R on=n ready=9 age=10", "R on=n ready=9 age=20 preparing",
		"R on=m ready=99 age=100", "R on=m ready=99 age=100", "R on=k ready=99 age=100", "R on=m ready=100 cost=-9",
	}, func(pods []*Pod) {
		orderForUpdate(pods, &v1alpha1.CloneSetUpdateStrategy{})
	})
}

// stacked creates pods from words: "n:3" is three on node n, ":2" two on no node.
func stacked(words string) (pods []*Pod) {
	for _, word := range strings.Fields(words) {
		node, many, _ := strings.Cut(word, ":")
		n, _ := strconv.Atoi(many)
		for range n {
			i := 0
			for _, p := range pods {
				if p.Node == node {
					i++
				}
			}
			pods = append(pods, &Pod{Name: fmt.Sprintf("%s-%d", node, i), Node: node, Phase: corev1.PodRunning})
		}
	}
	return pods
}

// TestNeighboursGoFirst contains the cases of Kruise's pod_sorter_test.go about ranks of otherwise equal pods,
// except the topology with only some of the values, which a template cannot express.
func TestNeighboursGoFirst(t *testing.T) {
	nodes := map[string]map[string]string{"a": {}}
	for zone, in := range map[string]string{"z1": "bcd", "z2": "efg", "z3": "hi"} {
		for _, node := range strings.Split(in, "") {
			nodes[node] = map[string]string{corev1.LabelHostname: node, corev1.LabelTopologyZone: zone}
		}
	}
	over := func(keys ...string) (all []corev1.TopologySpreadConstraint) {
		for _, key := range keys {
			all = append(all, corev1.TopologySpreadConstraint{TopologyKey: key})
		}
		return all
	}
	const zones = "a:2 b:2 c:3 d:5 e:5 f:3 i:5" // z1 has 10, z2 8, z3 5
	for _, c := range []struct {
		name   string
		pods   string
		spread Spread
		want   string
	}{
		{"nodes", "a:1 :2 b:1 a:1 c:1 b:1 d:3 a:1", Spread{}, "-0 -1 a-0 d-0 a-1 b-0 d-1 a-2 b-1 c-0 d-2"},
		{"zones", zones, Spread{over(corev1.LabelTopologyZone), nodes},
			"d-0 d-1 c-0 e-0 d-2 e-1 b-0 e-2 c-1 f-0 i-0 d-3 e-3 i-1 b-1 f-1 i-2 c-2 e-4 i-3 d-4 f-2 i-4 a-0 a-1"},
		{"zones and nodes", zones, Spread{over(corev1.LabelTopologyZone, corev1.LabelHostname), nodes},
			"d-0 e-0 d-1 e-1 c-0 i-0 d-2 e-2 i-1 f-0 b-0 c-1 i-2 d-3 e-3 f-1 i-3 b-1 c-2 e-4 d-4 f-2 i-4 a-0 a-1"},
		{"nodes by their label", "a:2 b:2 c:3", Spread{over(corev1.LabelHostname), nodes}, "c-0 b-0 c-1 b-1 c-2 a-0 a-1"},
		{"a topology that no node has", "b:2 c:1", Spread{over("rack"), nodes}, "b-0 b-1 c-0"},
		{"nodes that are not known", "a:1 x:3 y:2", Spread{over(corev1.LabelTopologyZone), nodes}, "a-0 x-0 x-1 x-2 y-0 y-1"},
		{"nothing is known of nodes", "a:1 b:3 c:2", Spread{over(corev1.LabelTopologyZone), nil}, "b-0 b-1 c-0 a-0 b-2 c-1"},
		{"no constraints", "a:1 b:3 c:2", Spread{nil, nodes}, "b-0 b-1 c-0 a-0 b-2 c-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pods := stacked(c.pods)
			slices.Reverse(pods)
			rankForDeletion(noon, pods, 0, c.spread)
			if got := names(pods); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// TestNeighboursComeAfterTheClass checks that an unready pod without neighbours precedes a ready one with
// many, and that of otherwise equal pods the one with neighbours comes first although it is older.
func TestNeighboursComeAfterTheClass(t *testing.T) {
	pods := []*Pod{
		rankedPod("old-neighbour", "R on=n ready=99 age=99"), rankedPod("oldest", "R on=n ready=100 age=100"),
		rankedPod("young-alone", "R on=m ready=5 age=5"), rankedPod("broken-alone", "R on=k age=200"),
	}
	rankForDeletion(noon, pods, 0, Spread{})
	if got, want := names(pods), "broken-alone old-neighbour young-alone oldest"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// naiveOrder compares two pods directly, criterion by criterion.
func naiveOrder(now time.Time, minReady time.Duration, deleting bool, rank map[*Pod]float64) func(p, q *Pod) int {
	flag := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	phase := map[corev1.PodPhase]int{corev1.PodUnknown: 1, corev1.PodRunning: 2}
	late := func(p, q time.Time) int {
		if p.Equal(q) || !p.IsZero() && !q.IsZero() {
			return q.Compare(p)
		}
		return flag(q.IsZero()) - flag(p.IsZero())
	}
	return func(p, q *Pod) int {
		order := []int{flag(p.Node != "") - flag(q.Node != ""), phase[p.Phase] - phase[q.Phase]}
		if deleting {
			p1, _ := p.available(now, minReady)
			q1, _ := q.available(now, minReady)
			order = append(order, flag(p1)-flag(q1))
		}
		order = append(order, flag(p.ready())-flag(q.ready()))
		if deleting {
			order = append(order, cmp.Compare(p.deletionCost(), q.deletionCost()), cmp.Compare(rank[q], rank[p]))
		}
		if p.ready() && q.ready() {
			order = append(order, late(p.Ready.Since, q.Ready.Since))
		}
		order = append(order, q.restarts()-p.restarts(), late(p.Created, q.Created), strings.Compare(p.Name, q.Name))
		for _, c := range order {
			if c != 0 {
				return c
			}
		}
		return 0
	}
}

// naiveRanks compares all pairs of pods.
func naiveRanks(pods []*Pod, spread Spread, alone func(p, q *Pod) int) map[*Pod]float64 {
	place := func(p *Pod, together func(p, q *Pod) bool, compare func(p, q *Pod) int) (n int) {
		for _, q := range pods {
			if together(p, q) && compare(q, p) >= 0 {
				n++
			}
		}
		return n
	}
	ranks := map[*Pod]float64{}
	for _, p := range pods {
		ranks[p] = float64(max(0, place(p, func(p, q *Pod) bool { return p.Node != "" && p.Node == q.Node }, alone)-1))
	}
	if len(spread.Constraints) == 0 || spread.Nodes == nil {
		return ranks
	}
	sums := map[*Pod]float64{}
	for _, c := range spread.Constraints {
		domain := func(p *Pod) string { return spread.Nodes[p.Node][c.TopologyKey] }
		domains := map[string]bool{}
		for _, p := range pods {
			if domain(p) != "" {
				domains[domain(p)] = true
			}
		}
		compare := alone
		if c.TopologyKey != corev1.LabelHostname {
			compare = naiveOrder(noon, time.Minute, true, ranks)
		}
		for _, p := range pods {
			n := place(p, func(p, q *Pod) bool { return domain(p) != "" && domain(p) == domain(q) }, compare)
			sums[p] += float64(n) * math.Log(float64(len(domains)+2))
		}
	}
	return sums
}

// TestSortKeysMatchNaiveOrder compares the sort by keys with a direct comparison of pods, for short and long
// lists.
func TestSortKeysMatchNaiveOrder(t *testing.T) {
	nodes := map[string]map[string]string{
		"a": {corev1.LabelHostname: "a", "zone": "1"}, "b": {corev1.LabelHostname: "b", "zone": "1"}, "c": {corev1.LabelHostname: "c", "zone": "2"}, "d": {},
	}
	rapid.Check(t, func(t *rapid.T) {
		word := func(from ...string) string { return rapid.SampledFrom(from).Draw(t, "word") }
		pods := make([]*Pod, rapid.SampledFrom([]int{0, 1, 2, 7, 40, 199, 200, 260}).Draw(t, "pods"))
		for i := range pods {
			name := fmt.Sprintf("%s%d%s", word("web-", "web-", "web-a-long-one-", "w"), i, word("", "-x"))
			pods[i] = rankedPod(name, strings.Join([]string{
				word("P", "U", "R", "R", "R"), word("", "on=a", "on=b", "on=c", "on=d", "on=e"), word("", "ready", "ready=1", "ready=59", "ready=60", "ready=86400"),
				word("", "", "cost=-2147483648", "cost=2147483647", "cost=3"), word("", "restarts=1", "restarts=300"), word("", "age=3", "age=70000"),
				word("", "", "", "updating", "preparing"),
			}, " "))
		}
		var spread Spread
		if rapid.Bool().Draw(t, "nodes") {
			spread.Nodes = nodes
		}
		for _, key := range []string{"zone", corev1.LabelHostname, "rack"} {
			if rapid.Bool().Draw(t, key) {
				spread.Constraints = append(spread.Constraints, corev1.TopologySpreadConstraint{TopologyKey: key})
			}
		}

		want := slices.Clone(pods)
		ranks := naiveRanks(pods, spread, naiveOrder(noon, time.Minute, true, nil))
		slices.SortFunc(want, naiveOrder(noon, time.Minute, true, ranks))
		got := slices.Clone(pods)
		if rapid.Bool().Draw(t, "by name") { // as in a plan
			slices.SortFunc(got, func(p, q *Pod) int { return strings.Compare(p.Name, q.Name) })
		}
		rankForDeletion(noon, got, time.Minute, spread)
		if !slices.Equal(got, want) {
			t.Fatalf("to be deleted: %s\nwant %s", names(got), names(want))
		}

		slices.SortFunc(want, naiveOrder(noon, time.Minute, false, nil))
		orderForUpdate(got, &v1alpha1.CloneSetUpdateStrategy{})
		if !slices.Equal(got, want) {
			t.Fatalf("to be updated: %s\nwant %s", names(got), names(want))
		}
	})
}
