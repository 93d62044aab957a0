package usage

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/api/kwok/v1alpha1"
)

// TestTotalHasNoDrift compares totals with exact sums, over many observations at random times of random usages.
func TestTotalHasNoDrift(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		now, scale := created, unit(name)
		sum, want := total{at: now}, new(big.Int)
		for range 100_000 {
			elapsed := time.Duration(random.Int64N(int64(time.Minute)))
			usage := random.Int64N(1 << 50)
			now = now.Add(elapsed)
			sum = sum.add(name, *resource.NewScaledQuantity(usage, scale), now)
			want.Add(want, new(big.Int).Mul(big.NewInt(usage), big.NewInt(int64(elapsed))))
		}
		got := new(big.Int).Add(new(big.Int).Lsh(new(big.Int).SetUint64(sum.high), 64), new(big.Int).SetUint64(sum.low))
		if got.Cmp(want) != 0 {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

// TestSplitObservations: a constant usage gives the same total, however often it is observed.
func TestSplitObservations(t *testing.T) {
	usage := resource.MustParse("333333333n")
	end := created.Add(24 * time.Hour)
	once := total{at: created}.add(corev1.ResourceCPU, usage, end)
	often := total{at: created}
	for at := created; !at.After(end); at = at.Add(7 * time.Millisecond) {
		often = often.add(corev1.ResourceCPU, usage, at)
	}
	often = often.add(corev1.ResourceCPU, usage, end)
	if once != often {
		t.Errorf("%v and %v", once, often)
	}
	if got := once.seconds(corev1.ResourceCPU); math.Abs(got-0.333333333*86400) > 1e-9 {
		t.Error(got)
	}
}

func TestTotalLimits(t *testing.T) {
	sum := total{at: created}.add(corev1.ResourceCPU, resource.MustParse("100E"), created.Add(time.Second))
	if got := sum.seconds(corev1.ResourceCPU); math.Abs(got-math.MaxInt64/1e9) > 1 {
		t.Errorf("a huge usage: %v", got)
	}
	if back := sum.add(corev1.ResourceCPU, resource.MustParse("1"), created); back != sum {
		t.Errorf("a clock that goes backwards: %v, not %v", back, sum)
	}
	if got := startAt(corev1.ResourceMemory, 1e25, created).seconds(corev1.ResourceMemory); math.Abs(got/1e25-1) > 1e-12 {
		t.Errorf("a start at 1e25: %v", got)
	}
}

// TestTotals: a container's total begins at its start, adds the usage at each observation, and begins again after a restart. A node's
// total does not fall.
func TestTotals(t *testing.T) {
	p := pod("web", "a")
	w := newWorld(p)
	setUsage := func(cpu string) {
		w.rules["a"] = map[string]v1alpha1.ResourceUsageValue{"cpu": {Value: ptr.To(resource.MustParse(cpu))}}
	}
	check := func(wantPod, wantNode float64) {
		t.Helper()
		node, err := w.plan().cumulativeOf(*w.node(), "cpu", "")
		if err != nil || math.Abs(node-wantNode) > 1e-9 {
			t.Errorf("node: %v, %v, want %v", node, err, wantNode)
		}
		for _, c := range Running(p) {
			got, err := w.plan().ContainerTotal(p, c, corev1.ResourceCPU)
			if err != nil || math.Abs(got-wantPod) > 1e-9 {
				t.Errorf("container: %v, %v, want %v", got, err, wantPod)
			}
		}
	}
	setUsage("2")
	check(200, 200) // 100 s after the start
	check(200, 200) // again at the same time
	w.now = w.now.Add(10 * time.Second)
	setUsage("500m")
	check(205, 205)
	p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(w.now)
	w.now = w.now.Add(4 * time.Second)
	check(2, 207)
	w.pods = nil
	w.now = w.now.Add(time.Second)
	if node, err := w.plan().cumulativeOf(*w.node(), "cpu", ""); err != nil || node != 207 {
		t.Errorf("node without pods: %v, %v", node, err)
	}
	w.totals.Retain(func(uid apitypes.UID) bool { return uid == "node-0" })
	if len(w.totals.containers) != 0 || len(w.totals.nodes) != 1 {
		t.Errorf("%d totals of containers and %d of nodes remain", len(w.totals.containers), len(w.totals.nodes))
	}
	w.totals.Retain(func(apitypes.UID) bool { return false })
	if len(w.totals.nodes) != 0 {
		t.Error("a total of a node remains")
	}
}
