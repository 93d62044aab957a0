//go:build unix

package rehearsal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rehearse-k8s/rehearse/history"
)

// initialWeb creates a Web of a scenario in a cluster.
func initialWeb(t *testing.T, g *externalCluster) string {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v2", "kind": "Web", "metadata": map[string]any{"name": "web"}, "spec": map[string]any{"size": "1"}}}
	to, err := resourceFor(g.client, g.harness.mapper, o)
	if err == nil {
		err = g.createInitial(t.Context(), to, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "/webs.example.com/default/web"
}

// contents returns the objects of a cluster without what the API server writes, as text.
func contents(f *fakeCluster) map[string]string {
	all := map[string]string{}
	for key, o := range f.objects {
		all[key] = fmt.Sprint(asNew(o).Object)
	}
	return all
}

// TestRestoreRandom: after any run, with any writes of others in between, a restore deletes what the run created,
// recreates what it deleted, reverts what it wrote, and keeps what others wrote.
func TestRestoreRandom(t *testing.T) {
	for seed := range uint64(150) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 2))
			g, f := fakeExternal(t)
			web := initialWeb(t, g)
			node, _ := f.add("Node", "", "theirs", "")
			f.add("Pod", "elsewhere", "theirs", "")
			f.capture(g)
			want := contents(f)
			theirs := map[string]string{}
			record, writes := &history.Run{}, map[string][]write{}
			by := func(run bool, key string, change func() (is *unstructured.Unstructured)) {
				var w write
				if o := f.objects[key]; o != nil {
					w.was = o.DeepCopy().Object
				}
				if is := change(); is != nil {
					w.is = is.Object
				}
				if run {
					writes[key] = append(writes[key], w)
				}
			}
			for n := range 1 + rnd.IntN(10) {
				switch run := rnd.IntN(2) == 0; rnd.IntN(6) {
				case 0: // the run creates a pod, perhaps with a finalizer, perhaps of an initial object
					name, owner := fmt.Sprint("p", n), ""
					if o := f.objects[web]; o != nil && run {
						owner = string(o.GetUID())
					}
					by(true, "/pods/default/"+name, func() *unstructured.Unstructured {
						key, o := f.add("Pod", "default", name, owner, []string{"run"}[:rnd.IntN(2)]...)
						g.created.add(key, o.GetUID())
						return o
					})
				case 1: // the run deletes an initial object, and with it its dependents
					if o := f.objects[web]; o != nil {
						by(true, web, func() *unstructured.Unstructured {
							o, now := o.DeepCopy(), metav1.Now()
							o.SetDeletionTimestamp(&now)
							f.put(web, o)
							return nil
						})
					}
				case 2: // the run changes an initial object
					if o := f.objects[web]; o != nil {
						by(true, web, func() *unstructured.Unstructured {
							o = o.DeepCopy()
							o.Object["spec"] = map[string]any{"size": fmt.Sprint(n)}
							return f.put(web, o)
						})
					}
				default: // the run or others label a node of others, each with a key of its own
					by(run, node, func() *unstructured.Unstructured {
						o := f.objects[node].DeepCopy()
						labels := o.GetLabels()
						if labels == nil {
							labels = map[string]string{}
						}
						if run {
							labels["run"] = fmt.Sprint(n)
						} else {
							labels["theirs"], theirs["theirs"] = fmt.Sprint(n), fmt.Sprint(n)
						}
						o.SetLabels(labels)
						return f.put(node, o)
					})
				}
			}
			if len(theirs) > 0 {
				o := f.objects[node].DeepCopy()
				o.SetLabels(theirs)
				want[node] = fmt.Sprint(asNew(o).Object)
			}
			g.drop(record, writes)
			if err := g.restore(t.Context()); err != nil {
				t.Fatalf("seed %d: %v\nrequests %q", seed, err, f.requests)
			}
			equal(t, fmt.Sprint("seed ", seed), want, contents(f))
			before := len(f.requests)
			if err := g.restore(t.Context()); err != nil || len(f.requests) != before || len(g.written) > 0 {
				t.Errorf("seed %d: a second restore sends %q: %v", seed, f.requests[before:], err)
			}
		})
	}
}

// TestRestoreOrder: a restore recreates an initial object only after everything unexpected is deleted: names and quotas
// are free then.
func TestRestoreOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f := fakeExternal(t)
		web := initialWeb(t, g)
		f.capture(g)
		if err := f.Resource(kindWebs).Namespace("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		owner, o := f.add("Pod", "default", "owner", "", "run")
		dependent, _ := f.add("Pod", "default", "dependent", string(o.GetUID()))
		f.requests, g.runFinalizers["run"] = nil, true
		g.markWritten(web)
		if err := g.restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		equal(t, "requests", []string{
			"delete " + owner[1:] + " within 1s",
			"patch " + owner[1:], "delete " + owner[1:] + " within 0s", // after timeouts.finalizer
			"create " + web[1:],
		}, f.requests)
		equal(t, "objects; the dependent was deleted with its owner, not by a request", web, f.keys())
		if strings.Contains(strings.Join(f.requests, " "), dependent[1:]) {
			t.Error("the dependent was deleted by a request")
		}
		if uid := f.objects[web].GetUID(); g.initial[0].uid != uid || !g.created.has(uid) {
			t.Errorf("the recreated object has UID %s, known is %s", uid, g.initial[0].uid)
		}
	})
}

// TestRestoreKeepsFinalizersOfOthers: a finalizer that no run has added may protect something outside of the cluster: the
// restore waits for it and its error names the object and the finalizer.
func TestRestoreKeepsFinalizersOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f := fakeExternal(t)
		f.capture(g)
		pod, _ := f.add("Pod", "default", "guarded", "", "cloud/balancer", "run")
		g.runFinalizers["run"] = true
		began := time.Now()
		err := g.restore(t.Context())
		const want = "restore the cluster: default/Pod guarded, which is being deleted and waits for its finalizers [cloud/balancer] still exists: context deadline exceeded"
		if !errors.Is(err, context.DeadlineExceeded) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if f.objects[pod] == nil {
			t.Fatal("the pod was deleted in spite of its finalizer")
		}
		equal(t, "finalizers", []string{"cloud/balancer"}, f.objects[pod].GetFinalizers())
		equal(t, "took", g.harness.timeouts.restore, time.Since(began))
	})
}

// TestRestoreErrors: an object that cannot be deleted does not prevent the others from being deleted, and the error has
// the API server's reason.
func TestRestoreErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, f := fakeExternal(t)
		f.capture(g)
		f.add("Pod", "default", "a", "")
		f.add("Pod", "default", "b", "")
		f.fail = func(verb, key string) error {
			if verb == "delete" && strings.HasSuffix(key, "/a") {
				return apierrors.NewForbidden(pods, "a", errors.New("policy"))
			}
			return nil
		}
		err := g.restoreOnce(t.Context(), snapshotOf(g), &removals{deletedAt: map[types.UID]time.Time{}, uids: map[string]types.UID{}})
		equal(t, "what remains", []string{`default/Pod a still exists: pods "a" is forbidden: policy`, "default/Pod b still exists"}, err)
		equal(t, "objects", "/pods/default/a", f.keys())
		if err := g.restore(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "restore the cluster: default/Pod a still exists") {
			t.Error(err)
		}
		g.mirror.fail(errors.New("watch pods: the watch ended"))
		if err := g.restore(t.Context()); err == nil || err.Error() != "restore the cluster: watch pods: the watch ended" {
			t.Errorf("a restore without knowledge of the cluster gives %v", err)
		}
	})
}
