package simtest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/sim"
	"github.com/rehearse-k8s/rehearse/invariant"
	"github.com/rehearse-k8s/rehearse/simtest"
	"github.com/rehearse-k8s/rehearse/simtest/kubecontrollers"
)

// Each test shows one capability of a world, in a run that repeats.

func TestProofCustomResource(t *testing.T) {
	run := repeats(t, simtest.Options{}.CRDs(widgets()), func(w *simtest.World) {
		x := widget("x", 3)
		w.Create(x)
		if size, _, _ := unstructured.NestedInt64(x.Object, "spec", "size"); size != 3 || x.GetUID() == "" {
			w.Fatalf("the API answered %v", x.Object)
		}
		if y := x.GetCreationTimestamp().Year(); y != 2000 {
			w.Fatalf("the creationTimestamp has the year %d; want virtual time", y)
		}
		w.Advance(time.Hour)
		unstructured.SetNestedField(x.Object, int64(5), "spec", "size")
		w.Update(x)
		if x.GetGeneration() != 2 {
			w.Fatalf("generation %d after a change of the spec", x.GetGeneration())
		}
		w.Eventually(time.Minute, invariant.Field("widgets.proof.example.com", "default", "x", "spec.size", 5))
	})
	if len(run.Steps) == 0 {
		t.Error("the record has no steps")
	}
}

func widgets() *apiextensionsv1.CustomResourceDefinition {
	integer := apiextensionsv1.JSONSchemaProps{Type: "integer"}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"size": integer}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.proof.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "proof.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
				}},
			}},
		},
	}
}

func widget(name string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "proof.example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name},
		"spec":     map[string]any{"size": size},
	}}
}

func TestProofServiceAddress(t *testing.T) {
	address := func(seed uint64) (ip string) {
		passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: seed}, func(w *simtest.World) {
			s := service("web")
			w.Create(s)
			ip = s.Spec.ClusterIP
			again := service("web2")
			again.Spec.ClusterIP = ip
			if err := tryCreate(w, again); err == nil {
				w.Fatalf("the address %s was assigned twice", ip)
			}
		}))
		return ip
	}
	first := address(1)
	if second := address(1); first == "" || second != first {
		t.Errorf("addresses of two runs with one seed: %q and %q", first, second)
	}
	if other := address(2); other == "" || other == first {
		t.Errorf("addresses of two seeds: %q and %q", first, other)
	}
	repeats(t, simtest.Options{}, func(w *simtest.World) {
		w.Create(service("web"), service("db"))
		w.Delete(service("web"))
		w.Create(service("web"))
	})
}

func service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}},
	}}
}

// tryCreate creates a Service with a client of the test function.
func tryCreate(w *simtest.World, s *corev1.Service) error {
	client, err := kubernetes.NewForConfig(w.Config())
	if err != nil {
		return err
	}
	_, err = client.CoreV1().Services("default").Create(context.Background(), s, metav1.CreateOptions{})
	return err
}

func TestProofGarbageCollector(t *testing.T) {
	run := repeats(t, simtest.Options{}, func(w *simtest.World) {
		w.Controller("gc", kubecontrollers.GarbageCollectorOf("configmaps", "secrets"))
		owner := configMap("owner", "")
		w.Create(owner)
		owned := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID},
		}}}
		w.Create(owned)
		w.Settle()
		w.Delete(owner)
		w.Eventually(time.Minute, invariant.Gone("secrets", "default", "owned"))
	})
	if who := writers(run, "secrets"); who != "user gc" {
		t.Errorf("the secret was written by %q", who)
	}
}

func TestProofGarbageCollectorOfAll(t *testing.T) {
	passed(t, simtest.Play(t, simtest.Options{}.CRDs(widgets()), sim.Plan{Seed: 1}, func(w *simtest.World) {
		w.Controller("gc", kubecontrollers.GarbageCollector)
		owner := widget("owner", 1)
		w.Create(owner)
		p := pod("owned")
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "proof.example.com/v1", Kind: "Widget", Name: "owner", UID: owner.GetUID()}}
		w.Create(p)
		w.Settle()
		w.Delete(owner)
		w.Eventually(time.Minute, invariant.Gone("pods", "default", "owned"))
	}))
}

func TestProofNamespace(t *testing.T) {
	// Upstream's controller deletes the resources in the order of a Go map, which no seed
	// determines.
	passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 1}, func(w *simtest.World) {
		w.Controller("namespace", kubecontrollers.Namespace)
		team := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team"}}
		w.Create(team)
		inside := configMap("inside", "")
		inside.Namespace = "team"
		w.Create(inside)
		w.Delete(team)
		late := configMap("late", "")
		late.Namespace = "team"
		client, err := kubernetes.NewForConfig(w.Config())
		if err != nil {
			w.Fatalf("%v", err)
		}
		if _, err := client.CoreV1().ConfigMaps("team").Create(context.Background(), late, metav1.CreateOptions{}); err == nil {
			w.Fatalf("the API created an object in a terminating namespace")
		}
		w.Eventually(time.Minute, invariant.All(
			invariant.Gone("configmaps", "team", "inside"), invariant.Gone("namespaces", "", "team")))
	}))
}

func replicaSet(name string, n int32) *appsv1.ReplicaSet {
	labels := map[string]string{"app": name}
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.ReplicaSetSpec{
		Replicas: ptr.To(n), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
		},
	}}
}

func replicaSetTest(w *simtest.World) {
	w.Kubelet()
	w.Controller("replicaset", kubecontrollers.ReplicaSet)
	w.Create(replicaSet("web", 3))
	w.Eventually(time.Minute, invariant.Field("replicasets.apps", "default", "web", "status.readyReplicas", 3))
}

func TestProofReplicaSet(t *testing.T) {
	run := repeats(t, simtest.Options{}, replicaSetTest)
	again := passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: run.Seed}, replicaSetTest))
	for i := range run.Steps {
		if run.Steps[i].UID != again.Steps[i].UID {
			t.Fatalf("step %d: UID %q, then %q", i, run.Steps[i].UID, again.Steps[i].UID)
		}
	}
}

func jobOf(name string, n int32) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{
		Parallelism: ptr.To(n), Completions: ptr.To(n),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever,
			Containers:    []corev1.Container{{Name: "c", Image: "busybox"}},
		}},
	}}
}

func jobTest(w *simtest.World) {
	w.Kubelet()
	w.Controller("job", kubecontrollers.Job)
	w.Create(jobOf("task", 3))
	w.Eventually(5*time.Minute, invariant.Condition("jobs.batch", "default", "task", "Complete", "True"))
}

func TestProofJob(t *testing.T) {
	passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 1}, func(w *simtest.World) {
		jobTest(w)
		job := jobOf("task", 3)
		if !w.Get(job) || job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] != string(job.UID) {
			w.Fatalf("job %s selects %v", job.UID, job.Spec.Selector)
		}
	}))
	// With more than one pod, upstream's controller processes the pods in the order of a Go map,
	// which no seed determines.
	repeats(t, simtest.Options{}, func(w *simtest.World) {
		w.Kubelet()
		w.Controller("job", kubecontrollers.Job)
		w.Create(jobOf("task", 1))
		w.Eventually(5*time.Minute, invariant.Condition("jobs.batch", "default", "task", "Complete", "True"))
	})
}

func TestProofOthers(t *testing.T) {
	passed(t, simtest.Play(t, simtest.Options{}, sim.Plan{Seed: 1}, func(w *simtest.World) {
		w.Kubelet()
		w.Controller("deployment", kubecontrollers.Deployment)
		w.Controller("replicaset", kubecontrollers.ReplicaSet)
		w.Controller("statefulset", kubecontrollers.StatefulSet)
		w.Controller("endpointslice", kubecontrollers.EndpointSlice)
		rs := replicaSet("web", 2)
		w.Create(service("web"))
		w.Create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{
			Replicas: rs.Spec.Replicas, Selector: rs.Spec.Selector, Template: rs.Spec.Template,
		}})
		db := replicaSet("db", 2)
		w.Create(&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: appsv1.StatefulSetSpec{
			ServiceName: "db", Replicas: db.Spec.Replicas, Selector: db.Spec.Selector, Template: db.Spec.Template,
		}})
		w.Eventually(5*time.Minute, invariant.Field("deployments.apps", "default", "web", "status.readyReplicas", 2))
		w.Eventually(5*time.Minute, invariant.Field("statefulsets.apps", "default", "db", "status.readyReplicas", 2))
		w.Eventually(5*time.Minute, invariant.Func("web has two endpoints", func(v invariant.View) error {
			for _, s := range v.List("endpointslices.discovery.k8s.io") {
				if endpoints, _, _ := unstructured.NestedSlice(s.Object, "endpoints"); len(endpoints) == 2 {
					return nil
				}
			}
			return fmt.Errorf("no slice has two")
		}))
	}))
}

// TestProofParked delays a request of one controller until another controller has written twice.
func TestProofParked(t *testing.T) {
	test := func(w *simtest.World) {
		w.Create(configMap("shared", "old"))
		w.Controller("first", func(ctx context.Context, config *rest.Config) error {
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			maps := client.CoreV1().ConfigMaps("default")
			read, err := maps.Get(ctx, "shared", metav1.GetOptions{})
			if err == nil {
				read.Data["text"] += " and first"
				_, err = maps.Update(ctx, read, metav1.UpdateOptions{})
			}
			if err == nil && read.Data["text"] != "old and first" {
				return fmt.Errorf("read %q", read.Data["text"])
			}
			<-ctx.Done()
			return nil
		})
		w.Controller("second", func(ctx context.Context, config *rest.Config) error {
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return err
			}
			for _, name := range []string{"one", "two"} {
				if err == nil {
					_, err = client.CoreV1().ConfigMaps("default").Create(ctx, configMap(name, ""), metav1.CreateOptions{})
				}
			}
			<-ctx.Done()
			return err
		})
	}
	late := fault.Fault{Kind: fault.KindLateRequest, Actor: "first", Verb: "update", Resource: "configmaps", Nth: 1, Writes: 2}
	run := repeats(t, simtest.Options{}, test, late)
	order := ""
	for i := range run.Steps {
		if s := &run.Steps[i]; s.Kind == history.Request && s.Actor != "user" {
			order += s.Actor + " " + s.Verb + "; "
		}
	}
	if order != "first get; second create; second create; first update; " {
		t.Errorf("the requests came in the order %s", order)
	}
}

// TestProofEviction evicts two pods of a PodDisruptionBudget that permits one eviction.
func TestProofEviction(t *testing.T) {
	repeats(t, simtest.Options{}, func(w *simtest.World) {
		w.Kubelet()
		labels := map[string]string{"app": "web"}
		a, b := pod("a"), pod("b")
		a.Labels, b.Labels = labels, labels
		w.Create(a, b)
		w.Settle()
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
		}}
		w.Create(budget)
		// Set the status as the disruption controller would.
		budget.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: budget.Generation, DisruptionsAllowed: 1, CurrentHealthy: 2, DesiredHealthy: 1, ExpectedPods: 2,
		}
		w.Update(budget, "status")
		client, err := kubernetes.NewForConfig(w.Config())
		if err != nil {
			w.Fatalf("%v", err)
		}
		evict := func(name string) error {
			return client.PolicyV1().Evictions("default").Evict(context.Background(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}})
		}
		if err := evict("a"); err != nil {
			w.Fatalf("evict a: %v", err)
		}
		if err := evict("b"); !apierrors.IsTooManyRequests(err) {
			w.Fatalf("evict b, which the budget forbids: %v", err)
		}
		w.Get(budget)
		if at := budget.Status.DisruptedPods["a"]; at.Year() != 2000 {
			w.Fatalf("the budget lists pod a as disrupted at %s: %+v", at, budget.Status)
		}
		w.Eventually(time.Minute, invariant.All(invariant.Gone("pods", "default", "a"), invariant.Exists("pods", "default", "b")))
	})
}
