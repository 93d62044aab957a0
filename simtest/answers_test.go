package simtest

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
)

// TestCachedAnswers runs searches twice, without and with the cache of the server's answers: each
// run has the same record, with the same UIDs and revisions.
func TestCachedAnswers(t *testing.T) {
	t.Run("pods", func(t *testing.T) {
		comparesCache(t, func(w *World) {
			w.Kubelet()
			for n := range 2 {
				w.Create(simplePod(metav1.ObjectMeta{GenerateName: "p-"}, fmt.Sprint("image:", n)))
			}
			w.Settle()
			for _, pod := range w.View().List("pods") {
				w.Delete(pod)
			}
		})
	})
	// Which pods the API rejects depends on when the namespace is deleted, and a pod that is created again has
	// another UID, which the controller writes.
	t.Run("a namespace is deleted, and pods are created again", func(t *testing.T) {
		comparesCache(t, func(w *World) {
			w.AllowDifferentOutcomes()
			w.Disable("Deleted") // no controller removes the namespace
			w.Controller("pods", podPerConfigMap)
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			w.Create(namespace)
			for _, name := range []string{"a", "b"} {
				w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}})
			}
			w.Delete(namespace)
			w.Settle()
			for _, pod := range w.View().List("pods") {
				w.Delete(pod)
			}
			w.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}})
		})
	})
}

func simplePod(meta metav1.ObjectMeta, image string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: image}}}}
}

// podPerConfigMap is a controller that creates a pod for each ConfigMap, unless the API rejects it, and
// writes the pod's UID into the ConfigMap.
func podPerConfigMap(ctx context.Context, config *rest.Config) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	sync := func(o any) {
		c := o.(*corev1.ConfigMap).DeepCopy()
		pod, err := client.CoreV1().Pods(c.Namespace).Create(ctx, simplePod(metav1.ObjectMeta{Name: c.Name}, "image"), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			pod, err = client.CoreV1().Pods(c.Namespace).Get(ctx, c.Name, metav1.GetOptions{})
		}
		if err == nil && c.Data["pod"] != string(pod.UID) {
			c.Data = map[string]string{"pod": string(pod.UID)}
			_, _ = client.CoreV1().ConfigMaps(c.Namespace).Update(ctx, c, metav1.UpdateOptions{})
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: sync, UpdateFunc: func(_, o any) { sync(o) }}
	if _, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(handler); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	<-ctx.Done()
	factory.Shutdown()
	return nil
}

// setAsk sets the flag -simtest.ask until the test ends.
func setAsk(t *testing.T, value string) {
	t.Helper()
	must(t, flag.Set("simtest.ask", value))
	t.Cleanup(func() { must(t, flag.Set("simtest.ask", "false")) })
}

// comparesCache runs a search without and with the cache.
func comparesCache(t *testing.T, test func(w *World)) {
	t.Helper()
	search := func(ask string) (runs []*history.Run) {
		setAsk(t, ask)
		p, err := newPlayer(t, Options{}, test)
		must(t, err)
		r, err := sim.Search(t.Context(), p, sim.Options{Seed: 3, Runs: 150, Progress: func(_ *sim.Result, out *sim.Outcome) {
			runs = append(runs, out.Run)
		}})
		must(t, err)
		if r.Failure != nil {
			t.Fatal(r.Failure.Run.Failure)
		}
		return runs
	}
	s, err := theServer()
	must(t, err)
	s.answers.forget()
	before := s.answers.hits
	asked := search("true")
	if n := s.answers.hits - before; n != 0 {
		t.Errorf("%d answers came from the cache, which is off", n)
	}
	remembered := search("false")
	requests := 0
	for _, run := range remembered {
		for i := range run.Steps {
			if run.Steps[i].Kind == history.Request && run.Steps[i].Verb != "watch" {
				requests++
			}
		}
	}
	if n := s.answers.hits - before; 2*n < requests {
		t.Errorf("only %d of %d requests were answered from the cache", n, requests)
	}
	if len(asked) != len(remembered) || len(asked) != 150 {
		t.Fatalf("%d and %d runs", len(asked), len(remembered))
	}
	for n := range asked {
		if step, diverged := history.Diverged(asked[n], remembered[n]); diverged {
			t.Fatalf("run %d with faults %q differs at step %d:\nserver %s\ncache  %s", n, asked[n].Faults, step, stepText(asked[n], step), stepText(remembered[n], step))
		}
		for i := range asked[n].Steps {
			server, err := json.Marshal(asked[n].Steps[i])
			must(t, err)
			cached, err := json.Marshal(remembered[n].Steps[i])
			must(t, err)
			if string(server) != string(cached) {
				t.Fatalf("run %d with faults %q differs at step %d:\nserver %s\ncache  %s", n, asked[n].Faults, i, server, cached)
			}
		}
	}
}

// TestAnswersDependOn plays two tests that end with the same request after as many writes, in the same second.
// The answer of the first is repeated in the second only if it does not depend on what they wrote.
func TestAnswersDependOn(t *testing.T) {
	pod := func(name string) *corev1.Pod { return simplePod(metav1.ObjectMeta{Name: name}, "image") }
	pods := func(w *World, names ...string) {
		for _, name := range names {
			if name, deleted := strings.CutPrefix(name, "-"); deleted {
				w.Delete(pod(name))
			} else {
				w.Create(pod(name))
			}
		}
	}
	inNamespace := func(w *World, deleted bool) {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
		w.Create(n)
		if deleted {
			w.Delete(n) // no controller removes it
		} else {
			w.Patch(n, types.MergePatchType, `{"metadata":{"labels":{"a":"b"}}}`)
		}
		w.Create(simplePod(metav1.ObjectMeta{Namespace: "n", Name: "a"}, "image"))
	}
	configMap := func(w *World, value string) {
		c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"first": value}}
		w.Create(c)
		w.Patch(c, types.MergePatchType, `{"data":{"second":"1"}}`)
	}
	priority := func(w *World, first string) {
		class := func(name string, global bool) *schedulingv1.PriorityClass {
			return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: 1, GlobalDefault: global}
		}
		w.Create(class(first, first == "default"))
		w.Create(class("other", true))
	}
	configuration := func(name string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	podAfter := func(w *World, o Object) {
		w.Create(o)
		pods(w, "a")
	}
	job := func(name string) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}}
		j.Spec.Template.Spec = simplePod(metav1.ObjectMeta{}, "image").Spec
		j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		return j
	}
	eviction := func(w *World, budgetOf string) {
		p := pod("a")
		p.Labels = map[string]string{"app": "a"}
		w.Create(p)
		p.Status.Phase = corev1.PodRunning // no budget protects a pending pod
		w.Update(p, "status")
		one := intstr.FromInt32(1)
		w.Create(&policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": budgetOf}}}})
		client, err := kubernetes.NewForConfig(w.Config())
		must(t, err)
		// An error is the answer 429.
		_ = client.PolicyV1().Evictions("default").Evict(context.Background(), &policyv1.Eviction{ObjectMeta: p.ObjectMeta})
	}
	for _, c := range []struct {
		name          string
		first, second func(w *World)
		want          int // answers of the second test that are those of the first
	}{
		{"the object", func(w *World) { configMap(w, "1") }, func(w *World) { configMap(w, "2") }, 0},
		{"objects of another resource", func(w *World) { inNamespace(w, false) }, func(w *World) { inNamespace(w, true) }, 1}, // the namespace
		{"an earlier object of that name", func(w *World) { pods(w, "b", "-b", "a") }, func(w *World) { pods(w, "a", "-a", "a") }, 0},
		{"other cluster-wide objects", func(w *World) { priority(w, "usual") }, func(w *World) { priority(w, "default") }, 0},
		{"a budget", func(w *World) { eviction(w, "b") }, func(w *World) { eviction(w, "a") }, 2},
		{"objects of another resource, which admission could read", func(w *World) { podAfter(w, configuration("c")) }, func(w *World) { podAfter(w, configuration("d")) }, 0},
		{"not on objects of a resource that is read alone", func(w *World) { podAfter(w, job("c")) }, func(w *World) { podAfter(w, job("d")) }, 1},
		{"not on other objects of the resource", func(w *World) { pods(w, "a", "b", "c") }, func(w *World) { pods(w, "b", "a", "c") }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := theServer()
			must(t, err)
			play := func(ask string, test func(w *World)) (end string, hits int) {
				setAsk(t, ask)
				before := s.answers.hits
				out := Play(t, Options{}, sim.Plan{Seed: 1}, func(w *World) {
					defer func() {
						for _, resource := range []string{"configmaps", "pods", "namespaces", "priorityclasses.scheduling.k8s.io"} {
							for _, o := range w.View().List(resource) {
								end += fmt.Sprintln(o.Object)
							}
						}
					}()
					test(w)
				})
				if out.Run.Failure != nil {
					end += out.Run.Failure.Message
				}
				return end, s.answers.hits - before
			}
			s.answers.forget()
			want, _ := play("true", c.second)
			play("false", c.first)
			got, hits := play("false", c.second)
			if got != want {
				t.Errorf("the second test ends with\n%s\nwithout the cache\n%s", got, want)
			}
			if hits != c.want {
				t.Errorf("%d answers of the first test were repeated in the second, want %d", hits, c.want)
			}
		})
	}
}
