package cloneset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/api/kruise"
	"github.com/rehearse-k8s/rehearse/api/kruise/v1alpha1"
)

// fleet returns running pods, ten on each node, ten nodes in each zone, sorted by name as in a plan. They were
// created in batches.
func fleet(n int) ([]*Pod, Spread) {
	spread := Spread{Nodes: map[string]map[string]string{}}
	pods := make([]*Pod, n)
	for i := range pods {
		k := (i*7919 + 3) % n
		since := noon.Add(-time.Hour + time.Duration(k/50)*time.Second)
		node := fmt.Sprintf("node-%d", k%(n/10+1))
		spread.Nodes[node] = map[string]string{corev1.LabelHostname: node, corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", k%(n/10+1)%(n/100+1))}
		pods[i] = &Pod{
			Name: fmt.Sprintf("web-%05x", k*2654435761%(1<<20)), UID: types.UID(fmt.Sprint(i)), Node: node, Phase: corev1.PodRunning,
			Labels: map[string]string{"tier": fmt.Sprint(k % 3)}, Created: since,
			Ready:    Condition{Status: corev1.ConditionTrue, Since: since.Add(2 * time.Second)},
			Statuses: []Status{{Name: "main", Ready: true}, {Name: "proxy", Ready: true, Restarts: k % 2}},
		}
	}
	slices.SortFunc(pods, func(p, q *Pod) int { return strings.Compare(p.Name, q.Name) })
	return pods, spread
}

func BenchmarkRankForDeletion(b *testing.B) {
	pods, spread := fleet(10_000)
	constrained := spread
	constrained.Constraints = []corev1.TopologySpreadConstraint{{TopologyKey: corev1.LabelTopologyZone}, {TopologyKey: corev1.LabelHostname}}
	for _, c := range []struct {
		name   string
		spread Spread
	}{{"nodes", spread}, {"zones+nodes", constrained}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rankForDeletion(noon, slices.Clone(pods), time.Minute, c.spread)
			}
		})
	}
}

func BenchmarkOrderForUpdate(b *testing.B) {
	pods, _ := fleet(10_000)
	for _, c := range []struct {
		name     string
		strategy v1alpha1.CloneSetUpdateStrategy
	}{
		{"plain", v1alpha1.CloneSetUpdateStrategy{}},
		{"priority", v1alpha1.CloneSetUpdateStrategy{PriorityStrategy: &kruise.UpdatePriorityStrategy{WeightPriority: []kruise.UpdatePriorityWeightTerm{
			{Weight: 10, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "1"}}},
		}}}},
		{"scatter", v1alpha1.CloneSetUpdateStrategy{ScatterStrategy: []kruise.UpdateScatterTerm{{Key: "tier", Value: "1"}}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				orderForUpdate(slices.Clone(pods), &c.strategy)
			}
		})
	}
}
