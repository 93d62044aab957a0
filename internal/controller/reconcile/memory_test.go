package reconcile

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

const pods = "pods"

// shows returns a cache at a revision.
func shows(t *testing.T, revision string, all ...*corev1.Pod) func(string) cache.Store {
	t.Helper()
	s := cache.NewStore(cache.MetaNamespaceKeyFunc)
	objects := []any{}
	for _, pod := range all {
		objects = append(objects, pod)
	}
	if err := s.Replace(objects, revision); err != nil {
		t.Fatal(err)
	}
	if got := s.LastStoreSyncResourceVersion(); got != revision {
		t.Fatalf("the cache says %q of its revision", got)
	}
	return func(string) cache.Store { return s }
}

// podWithFinalizer returns a pod with the tracking finalizer.
func podWithFinalizer(name, uid, revision string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.ResourceVersion = "default", name, revision
	pod.UID = types.UID(uid)
	pod.Finalizers = []string{"ours"}
	return pod
}

func terminating(pod *corev1.Pod) *corev1.Pod {
	pod.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	return pod
}

func released(pod *corev1.Pod) *corev1.Pod {
	pod.Finalizers = []string{"theirs"}
	return pod
}

func missing(name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: pods}, name)
}

// TestTouched checks what a cache must show of an object after a delete, a release, and a NotFound. An object
// of the same name with another UID is another object.
func TestTouched(t *testing.T) {
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want [3]bool // behind, by Until
	}{
		"unchanged":                {podWithFinalizer("a", "uid-a", "9"), [3]bool{Terminating: true, Released: true, Absent: true}},
		"released":                 {released(podWithFinalizer("a", "uid-a", "9")), [3]bool{Terminating: true, Absent: true}},
		"terminating":              {terminating(podWithFinalizer("a", "uid-a", "9")), [3]bool{Released: true, Absent: true}},
		"released and terminating": {terminating(released(podWithFinalizer("a", "uid-a", "9"))), [3]bool{Absent: true}},
		"another one":              {podWithFinalizer("a", "uid-b", "9"), [3]bool{}},
		"elsewhere":                {podWithFinalizer("b", "uid-a", "9"), [3]bool{}},
	} {
		for until, want := range c.want {
			var m Memory
			m.Gone("uid-a", Touched{Resource: pods, Name: "a", Until: Until(until), Finalizer: "ours"})
			if _, why, _ := m.Behind(time.Unix(0, 0), "default", shows(t, "9", c.pod)); (why != "") != want {
				t.Errorf("%s, until %d: behind: %q", name, until, why)
			}
		}
	}
}

// TestUnsettled checks that, after a patch or delete whose answer was lost, nothing is decided before the
// object has been read, and then before the cache shows what the read returned.
func TestUnsettled(t *testing.T) {
	asItWas := podWithFinalizer("a", "uid-a", "9")
	for name, c := range map[string]struct {
		live   *corev1.Pod // what the read returns
		behind []func(string) cache.Store
		fresh  []func(string) cache.Store
	}{
		"it had effect": {terminating(podWithFinalizer("a", "uid-a", "12")),
			[]func(string) cache.Store{shows(t, "11", asItWas)},
			[]func(string) cache.Store{shows(t, "12", terminating(podWithFinalizer("a", "uid-a", "12"))), shows(t, "13")}},
		"it had none": {asItWas, nil, []func(string) cache.Store{shows(t, "9", asItWas)}},
		"it is gone": {nil,
			[]func(string) cache.Store{shows(t, "99", asItWas), shows(t, "99", terminating(released(podWithFinalizer("a", "uid-a", "12"))))},
			[]func(string) cache.Store{shows(t, "13"), shows(t, "13", podWithFinalizer("a", "uid-b", "13"))}},
		"another one has its name": {podWithFinalizer("a", "uid-b", "14"),
			[]func(string) cache.Store{shows(t, "13"), shows(t, "14", asItWas)},
			[]func(string) cache.Store{shows(t, "14", podWithFinalizer("a", "uid-b", "14"))}},
	} {
		t.Run(name, func(t *testing.T) {
			for i, caches := range append(slices.Clone(c.behind), c.fresh...) {
				var m Memory
				m.Unsettled(pods, "a", "uid-a")
				if _, why, _ := m.Behind(time.Unix(0, 0), "default", shows(t, "99")); !strings.Contains(why, "pods/a") {
					t.Fatalf("not behind although the write of a is unsettled: %q", why)
				}
				if err := m.Settle(func(_, name string) (metav1.Object, error) {
					if c.live == nil {
						return nil, missing(name)
					}
					return c.live, nil
				}); err != nil {
					t.Fatal(err)
				}
				if _, why, _ := m.Behind(time.Unix(0, 0), "default", caches); (why != "") != (i < len(c.behind)) {
					t.Errorf("cache %d: behind: %q", i, why)
				}
			}
		})
	}
}

// TestSettle checks that the order of the reads is deterministic, that the write of an object that cannot be
// read stays unsettled, and that a create without effect is not waited for.
func TestSettle(t *testing.T) {
	var m Memory
	m.Unsettled(pods, "b", "")
	m.Unsettled(pods, "c", "uid-c")
	m.Unsettled(pods, "a", "uid-a")
	var asked []string
	broken := errors.New("broken")
	read := func(resource, name string) (metav1.Object, error) {
		asked = append(asked, resource+" "+name)
		if name == "c" && len(asked) < 4 {
			return nil, broken
		}
		return nil, missing(name)
	}
	if err := m.Settle(read); !errors.Is(err, broken) {
		t.Fatalf("error %v", err)
	}
	if _, why, _ := m.Behind(time.Unix(0, 0), "default", shows(t, "99")); !strings.Contains(why, "pods/c") {
		t.Errorf("behind: %q", why)
	}
	for range 2 {
		if err := m.Settle(read); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"pods a", "pods b", "pods c", "pods c"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %q, want %q", asked, want)
	}
	if _, why, _ := m.Behind(time.Unix(0, 0), "default", shows(t, "99", podWithFinalizer("b", "uid-b", "9"))); why != "" {
		t.Errorf("behind: %q", why)
	}
}

// TestWaited checks that the time until the caches show everything is returned once.
func TestWaited(t *testing.T) {
	var m Memory
	at := func(second int64, revision string, want time.Duration, behind bool) {
		t.Helper()
		resource, why, waited := m.Behind(time.Unix(second, 0), "default", shows(t, revision))
		if waited != want || (why != "") != behind || behind && resource != pods {
			t.Errorf("after %d s: waited %s for %s: %q", second, waited, resource, why)
		}
	}
	at(0, "9", 0, false)
	m.Wrote(pods, "11")
	at(1, "9", 0, true)
	at(3, "10", 0, true)
	at(4, "11", 3*time.Second, false)
	at(5, "11", 0, false)
}

// TestMemories checks that each owner has its own memory until it is forgotten, and that pod events of large
// owners wait.
func TestMemories(t *testing.T) {
	var all Memories[string, Memory]
	first := all.Of("a")
	if all.Of("a") != first || all.Of("b") == first {
		t.Error("two owners share a memory, or one has two")
	}
	all.SetSize("a", SmallOwner)
	if d := all.Pause("a"); d != 0 {
		t.Errorf("a small owner pauses for %s", d)
	}
	all.SetSize("a", 10_000)
	if d := all.Pause("a"); d != 50*time.Millisecond || all.Pause("b") != 0 {
		t.Errorf("an owner of 10,000 pods pauses for %s", d)
	}
	all.Forget("a")
	if all.Of("a") == first || all.Pause("a") != 0 {
		t.Error("the owner was not forgotten")
	}
}
