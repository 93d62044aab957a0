package simtest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
)

// copier is a small operator: for each ConfigMap it manages a Secret with the same contents.
func copier(mgr ctrl.Manager) error {
	c := mgr.GetClient()
	return ctrl.NewControllerManagedBy(mgr).Named("copier").For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
		Complete(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			var from corev1.ConfigMap
			if err := c.Get(ctx, r.NamespacedName, &from); err != nil || from.DeletionTimestamp != nil {
				return reconcile.Result{}, client.IgnoreNotFound(err)
			}
			to := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: from.Namespace, Name: from.Name}}
			_, err := ctrl.CreateOrUpdate(ctx, c, to, func() error {
				to.StringData = nil
				to.Data = map[string][]byte{"copy": []byte(from.Data["text"])}
				return ctrl.SetControllerReference(&from, to, mgr.GetScheme())
			})
			return reconcile.Result{}, err
		}))
}

func configMap(name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"text": text}}
}

func copierTest(w *simtest.World) {
	w.Manager("copier", copier)
	w.Apply(configMap("a", "one"))
	w.Settle()
	w.Apply(configMap("a", "two"))
	w.Eventually(time.Minute, invariant.Field("secrets", "default", "a", "data.copy", "dHdv"))
}

func TestManager(t *testing.T) {
	simtest.Run(t, simtest.Seeds(40), copierTest)
}

func leaderTest(w *simtest.World) {
	w.ManagerReplicas("copier", 2, copier)
	w.Apply(configMap("a", "one"))
	w.Eventually(2*time.Minute, invariant.Field("secrets", "default", "a", "data.copy", "b25l"))
}

func TestManagerReplicas(t *testing.T) {
	alone := passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 1}, leaderTest))
	if who := writers(alone, "secrets"); who != "copier/0" {
		t.Errorf("secrets were written by %q; want the first replica alone", who)
	}

	// Pause the leader at its first secret, for longer than its lease.
	f := fault.Fault{Kind: fault.KindPause, Actor: "copier/0", Verb: "create", Resource: "secrets", Nth: 1, For: time.Minute}
	paused := passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 1, Faults: []fault.Fault{f}}, leaderTest))
	if who := writers(paused, "secrets"); !strings.HasPrefix(who, "copier/1") {
		t.Errorf("secrets were written by %q; want the second replica first", who)
	}
}

// TestLateAnswerAfterCrash applies two faults to one request: its answer is delayed, and its
// instance is terminated.
func TestLateAnswerAfterCrash(t *testing.T) {
	at := fault.Fault{Actor: "copier", Verb: "create", Resource: "secrets", Nth: 1}
	late, crash := at, at
	late.Kind, late.For = fault.KindLateAnswer, 20*time.Second
	crash.Kind = fault.KindCrashAfter
	passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 1, Faults: []fault.Fault{late, crash}}, copierTest))
}

// passed returns a run in which every invariant holds, and fails the test otherwise.
func passed(t *testing.T, out *sim.Outcome) *history.Run {
	t.Helper()
	if f := out.Run.Failure; f != nil {
		for i := range out.Run.Steps {
			t.Log(line(&out.Run.Steps[i]))
		}
		t.Fatalf("%s: %s", f.Oracle, f.Message)
	}
	return out.Run
}

// line formats a step for the log of a failed test.
func line(s *history.Step) string {
	return fmt.Sprintf("%4d %9s %-8s %-12s %s%s %s %s %s %d rev %d/%d %s %s %s", s.N, s.At, s.Kind, s.Actor, s.Verb, s.Type, s.Object, s.Subresource, s.Query, s.Code, s.Revision, s.Truth, s.Digest, s.Fault, s.Note)
}

// writers returns the actors whose writes changed a resource, in order, separated by blanks.
func writers(r *history.Run, resource string) string {
	var all []string
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Wrote() && s.Resource == resource {
			all = append(all, s.Actor)
		}
	}
	return strings.Join(all, " ")
}

func TestManagerRepeats(t *testing.T) { repeats(t, simtest.Options{}, copierTest) }

func TestManagerReplicasRepeat(t *testing.T) { repeats(t, simtest.Options{}, leaderTest) }

// repeats executes a test twenty times with one seed: every run must have the same steps.
func repeats(t *testing.T, o simtest.Options, test func(*simtest.World), faults ...fault.Fault) *history.Run {
	t.Helper()
	return repeatsPlan(t, o, test, sim.Plan{Seed: 7, Faults: faults})
}

// repeatsPlan executes a plan twenty times: every run must have the same steps.
func repeatsPlan(t *testing.T, o simtest.Options, test func(*simtest.World), plan sim.Plan) *history.Run {
	t.Helper()
	first := passed(t, simtest.Play(t, o, plan, test))
	for n := range 19 {
		again := passed(t, simtest.Play(t, o, plan, test))
		if again.Hash() == first.Hash() {
			continue
		}
		for i := range again.Steps {
			a, b := again.Steps[i], first.Steps[min(i, len(first.Steps)-1)]
			if a.Hash != b.Hash {
				t.Fatalf("repeat %d differs at step %d:\n%s\nwas\n%s", n+1, i, line(&a), line(&b))
			}
		}
		t.Fatalf("repeat %d ends after %d steps; the first run had %d", n+1, len(again.Steps), len(first.Steps))
	}
	return first
}

// TestManagerEndsBeforeItsCachesHaveSynced: the manager of controller-runtime 0.24.1 waits for its caches also when its
// context has ended (runnableGroup.Start), and computes for ever if they never sync. Its instance ends nevertheless.
func TestManagerEndsBeforeItsCachesHaveSynced(t *testing.T) {
	indexed := func(mgr ctrl.Manager) error {
		err := mgr.GetFieldIndexer().IndexField(t.Context(), &corev1.Secret{}, "copy", func(o client.Object) []string {
			return []string{string(o.(*corev1.Secret).Data["copy"])}
		})
		return errors.Join(err, copier(mgr))
	}
	const none = "no ConfigMap exists"
	run := simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 1}, func(w *simtest.World) {
		w.Always(invariant.Func(none, func(v invariant.View) error {
			if len(v.List("configmaps")) > 0 {
				return errors.New("one exists")
			}
			return nil
		}))
		w.Manager("copier", indexed)
		w.Apply(configMap("a", "one"))
	}).Run
	if f := run.Failure; f == nil || f.Oracle != none {
		t.Errorf("%+v", f)
	}
}
