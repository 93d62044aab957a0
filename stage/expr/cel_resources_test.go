package expr

import (
	"testing"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestResourceList: a resource that a list does not contain has the quantity 0.
func TestResourceList(t *testing.T) {
	node := &corev1.Node{Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4")}}}
	for text, want := range map[string]bool{
		`self.status.allocatable["cpu"] == Quantity("4")`:                       true,
		`self.status.allocatable["memory"] == Quantity("0")`:                    true,
		`"memory" in self.status.allocatable`:                                   false,
		`"cpu" in self.status.allocatable`:                                      true,
		`size(self.status.allocatable) == 1 && size(self.status.capacity) == 0`: true,
		`self.status.allocatable.exists(name, name == "cpu")`:                   true,
		`self.status.capacity.cpu == Quantity("0")`:                             true,
	} {
		c, err := new(CELCompiler).Compile(text, true)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Holds(&View{Object: node}, ""); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	list := CELValue(node.Status.Allocatable).(resourceList)
	if _, ok := list.Get(types.Int(1)).(*types.Err); !ok {
		t.Error("a list has the index 1")
	}
	if v, ok := list.Find(types.Int(1)); ok {
		t.Errorf("a list contains %v at index 1", v)
	}
}

// TestCELQuantity: quantities stay exact; bools and durations are numbers.
func TestCELQuantity(t *testing.T) {
	for _, c := range []struct {
		value  ref.Val
		number float64
		ok     bool
	}{
		{types.Int(3), 3, true},
		{types.Double(0.5), 0.5, true},
		{types.True, 1, true},
		{types.Duration{Duration: time.Microsecond}, 1000, true},
		{types.String("1"), 0, false},
	} {
		if q, n, ok := CELQuantity(c.value); q != nil || n != c.number || ok != c.ok {
			t.Errorf("%v: got %v, %v, %v", c.value, q, n, ok)
		}
	}
	exact := resource.MustParse("9223372036854775807")
	if q, _, ok := CELQuantity(CELValue(exact)); !ok || q == nil || q.Cmp(exact) != 0 {
		t.Errorf("got %v, %v", q, ok)
	}
}
