package naivestages_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/examples/naivestages"
	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/internal/controller/stages"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/stage"
)

// The maximum number of runs in which the search must find each flaw of the naive engine, and in
// which the real engine must pass.
const (
	found = 600
	held  = 150
)

func TestFlaws(t *testing.T) {
	for _, c := range []struct {
		name   string
		flaw   naivestages.Flaw
		stages string
		oracle string // the rule that the naive engine violates
		test   func(*simtest.World)
	}{
		{"a delayed stage that never runs, kwok 958", naivestages.Lost, prepareThenFinish, "status.phase", func(w *simtest.World) {
			// A crash between the two writes of prepare leaves a pod that no stage matches: the
			// stages cause that, not the engine.
			w.Faults(fault.Lag("pods"), fault.Relist("pods"))
			w.Create(pod("p", nil))
			w.Eventually(time.Minute, phase("Succeeded"))
		}},
		{"from Running back to Pending, kwok 1002", naivestages.Stale, createThenReady, "is not Pending", func(w *simtest.World) {
			w.Always(invariant.MustCEL("a pod that ran is not Pending",
				`list("pods", "default").all(p, !(p.?status.message.orValue("") == "ran" && p.status.phase == "Pending"))`))
			w.Create(pod("p", nil))
			w.Eventually(time.Minute, phase("Running"))
		}},
		{"a stage that no longer matches", naivestages.Phantom, expire, "deletionTimestamp", func(w *simtest.World) {
			p := pod("p", map[string]string{"expire": "yes"})
			w.Create(p)
			w.Advance(10 * time.Second)
			w.Patch(p, types.MergePatchType, `{"metadata":{"labels":{"expire":null}}}`)
			w.Always(invariant.Field("pods", "default", "p", "metadata.deletionTimestamp", nil))
			w.Advance(30 * time.Second)
		}},
		{"a timer that every update starts again", naivestages.Restarted, finishLater, "within 1s", func(w *simtest.World) {
			w.Faults()
			p := pod("p", nil)
			w.Create(p)
			for n := range 12 {
				w.Advance(5 * time.Second)
				w.Patch(p, types.MergePatchType, fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, n))
			}
			w.Eventually(time.Second, phase("Succeeded"))
		}},
		{"another object of the same name", naivestages.Unnamed, markFirst, "not marked as the first", func(w *simtest.World) {
			w.Always(invariant.MustCEL("the second pod is not marked as the first", `list("pods", "default").all(p, p.metadata.labels["gen"] == "one" || p.?status.message.orValue("") != "first")`))
			w.Create(pod("p", map[string]string{"gen": "one"}))
			deleteNow(w, "p")
			w.Create(pod("p", map[string]string{"gen": "two"}))
		}},
		{"a delete that only a new list shows", naivestages.Forgotten, expire, "equal requests", func(w *simtest.World) {
			w.Create(pod("p", map[string]string{"expire": "yes"}))
			w.Advance(5 * time.Second)
			deleteNow(w, "p")
			w.Advance(time.Minute)
		}},
		{"an error that ends it", naivestages.Dropped, readyAtOnce, "status.phase", func(w *simtest.World) {
			w.Create(pod("p", nil))
			w.Eventually(5*time.Minute, phase("Running"))
		}},
		{"a retry in the place of newer work", naivestages.Displacing, twoLabels, "status.message", func(w *simtest.World) {
			p := pod("p", map[string]string{"step": "a"})
			w.Create(p)
			w.Advance(500 * time.Millisecond)
			w.Patch(p, types.MergePatchType, `{"metadata":{"labels":{"step":"b"}}}`)
			w.Eventually(5*time.Minute, invariant.Field("pods", "default", "p", "status.message", "b"))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			stages, err := stage.Load(c.name, []byte(c.stages+gone))
			if err != nil {
				t.Fatal(err)
			}
			set, err := stage.Compile(stages)
			if err != nil {
				t.Fatal(err)
			}
			with := func(engine simtest.Constructor) func(*simtest.World) {
				return func(w *simtest.World) {
					w.Nodes(1)
					w.Controller("stages", engine)
					c.test(w)
				}
			}
			r := simtest.Explore(t, simtest.Seeds(found), with(naivestages.New(set, c.flaw)))
			if r.Failure == nil {
				t.Errorf("no flaw of the naive engine was found in %d runs", r.Runs)
			} else {
				f := r.Failure
				if !strings.Contains(f.Run.Failure.Oracle, c.oracle) {
					t.Errorf("the naive engine violated another rule: %s", f.Run.Failure.Oracle)
				}
				t.Logf("naive: found in run %d, %s, %d steps: %s: %s\n%q", f.FoundAfter, f.Grade(), len(f.Run.Steps), f.Run.Failure.Oracle, f.Run.Failure.Message, f.Run.Faults)
			}
			simtest.Run(t, simtest.Seeds(held), with(real(set)))
		})
	}
}

// real returns the constructor of the real engine.
func real(set *stage.Set) simtest.Constructor {
	return func(ctx context.Context, config *rest.Config) error {
		e, err := stages.NewStageEngine(config, stages.StageOptions{
			Stages: set, Seed: 1, Manage: stages.NodeFilter{All: true}, LeaseDuration: -1, Workers: 1, Audit: -1,
		})
		if err != nil {
			return err
		}
		return e.Run(ctx)
	}
}

func pod(name string, labels map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: "c", Image: "c"}}},
	}
}

func phase(want string) invariant.Invariant {
	return invariant.Field("pods", "default", "p", "status.phase", want)
}

// deleteNow deletes a pod with a grace period of 0.
func deleteNow(w *simtest.World, name string) {
	client, err := kubernetes.NewForConfig(w.Config())
	if err != nil {
		w.Fatalf("%v", err)
	}
	if err := client.CoreV1().Pods("default").Delete(context.Background(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		w.Fatalf("%v", err)
	}
}
