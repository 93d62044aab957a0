package karpenter

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/apiserver"
)

// nodePool lets Karpenter create nodes of any type, and remove those without pods at once.
const nodePool = `
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [amd64]}
      - {key: kubernetes.io/os, operator: In, values: [linux]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
      nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}
      expireAfter: Never
  limits: {cpu: 1000}
  disruption: {consolidationPolicy: WhenEmptyOrUnderutilized, consolidateAfter: 0s}
`

// TestKarpenter: in a cluster without nodes, Karpenter creates nodes for the pods of a Deployment, the stages simulate them, the
// scheduler binds the pods, and when the Deployment has no pods any more, Karpenter removes the nodes.
func TestKarpenter(t *testing.T) {
	apiserver.Quiet()
	c, err := cluster.Start(t.Context(), cluster.Options{StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Stop()
		if err := c.Err(); err != nil {
			t.Errorf("the cluster ended with %v", err)
		}
	})
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c.Kubeconfig(), kubeconfig); err != nil {
		t.Fatal(err)
	}
	k := kubernetes.NewForConfigOrDie(c.RESTConfig())
	objects := dynamic.NewForConfigOrDie(c.RESTConfig())
	module := moduleDir(t)
	definitions := objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, pattern := range []string{"kwok/charts/crds/*.yaml", "kwok/apis/crds/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(module, filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			create(t, definitions, string(data))
		}
	}
	awaitServed(t, definitions)
	runKarpenter(t, kubeconfig)
	create(t, objects.Resource(schema.GroupVersionResource{Group: "karpenter.kwok.sh", Version: "v1alpha1", Resource: "kwoknodeclasses"}), "{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}}")
	create(t, objects.Resource(schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}), nodePool)

	s := observe(t, k)
	const replicas = 20
	d, err := k.AppsV1().Deployments("default").Create(t.Context(), deployment(replicas), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.await(t, "all pods run on nodes of Karpenter", func() bool {
		running := 0
		for _, p := range s.pods() {
			if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
				running++
			}
		}
		return running == replicas && len(s.nodes()) > 0
	})
	for _, n := range s.nodes() {
		if n.Labels["karpenter.sh/nodepool"] != "default" || n.Annotations["kwok.x-k8s.io/node"] != "fake" {
			t.Errorf("node %s: labels %v, annotations %v", n.Name, n.Labels, n.Annotations)
		}
	}
	none := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name}}
	if _, err := k.AppsV1().Deployments(d.Namespace).UpdateScale(t.Context(), d.Name, none, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.await(t, "Karpenter has removed the nodes", func() bool { return len(s.pods()) == 0 && len(s.nodes()) == 0 })
}

// moduleDir returns the directory of Karpenter's module.
func moduleDir(t *testing.T) string {
	t.Helper()
	// The test imports no package of the module, so nothing has downloaded it yet if the module cache is empty.
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "sigs.k8s.io/karpenter").Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return module.Dir
}

// create creates an object without a namespace.
func create(t *testing.T, client dynamic.ResourceInterface, text string) {
	t.Helper()
	obj := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &obj.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitServed waits until the API server serves all kinds that CustomResourceDefinitions define.
func awaitServed(t *testing.T, definitions dynamic.ResourceInterface) {
	t.Helper()
	all, err := definitions.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]bool{}
	for _, d := range all.Items {
		missing[d.GetName()] = true
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := definitions.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for len(missing) > 0 {
		e, ok := <-events.ResultChan()
		if !ok {
			t.Fatalf("the watch ended, and these are not served: %v", missing)
		}
		d, ok := e.Object.(*unstructured.Unstructured)
		if !ok {
			t.Fatalf("%s %v", e.Type, e.Object)
		}
		conditions, _, _ := unstructured.NestedSlice(d.Object, "status", "conditions")
		if slices.ContainsFunc(conditions, func(c any) bool {
			condition, _ := c.(map[string]any)
			return condition["type"] == "Established" && condition["status"] == "True"
		}) {
			delete(missing, d.GetName())
		}
	}
}

// runKarpenter builds Karpenter and runs it until the end of the test, with the settings of docs/howto/autoscalers.md except for its ports. Its log is a
// part of the test's output if the test fails.
func runKarpenter(t *testing.T, kubeconfig string) {
	t.Helper()
	dir := t.TempDir()
	program, name := filepath.Join(dir, "karpenter"), filepath.Join(dir, "log")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", program, "sigs.k8s.io/karpenter/kwok").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	log, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	// The context of the test ends before its cleanup, and would kill the process.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "SYSTEM_NAMESPACE=kube-system", "DISABLE_LEADER_ELECTION=true", "METRICS_PORT=0", "HEALTH_PROBE_PORT=0")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		kill := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
		err := cmd.Wait()
		kill.Stop()
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(name)
			t.Logf("Karpenter ended with %v: %s", err, text)
		}
	})
}

// state is what informers observe. changed receives a value after each change.
type state struct {
	changed chan struct{}
	factory informers.SharedInformerFactory
}

func observe(t *testing.T, k kubernetes.Interface) *state {
	t.Helper()
	s := &state{changed: make(chan struct{}, 1), factory: informers.NewSharedInformerFactory(k, 0)}
	signal := func() {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{AddFunc: func(any) { signal() }, UpdateFunc: func(any, any) { signal() }, DeleteFunc: func(any) { signal() }}
	for _, i := range []cache.SharedIndexInformer{s.factory.Core().V1().Pods().Informer(), s.factory.Core().V1().Nodes().Informer()} {
		if _, err := i.AddEventHandler(handler); err != nil {
			t.Fatal(err)
		}
	}
	s.factory.Start(t.Context().Done())
	s.factory.WaitForCacheSync(t.Context().Done())
	t.Cleanup(s.factory.Shutdown)
	return s
}

func (s *state) pods() (out []*corev1.Pod) {
	for _, o := range s.factory.Core().V1().Pods().Informer().GetStore().List() {
		out = append(out, o.(*corev1.Pod))
	}
	return out
}

func (s *state) nodes() (out []*corev1.Node) {
	for _, o := range s.factory.Core().V1().Nodes().Informer().GetStore().List() {
		out = append(out, o.(*corev1.Node))
	}
	return out
}

// await waits until the observed objects meet a condition.
func (s *state) await(t *testing.T, what string, met func() bool) {
	t.Helper()
	deadline := time.After(3 * time.Minute)
	for !met() {
		select {
		case <-s.changed:
		case <-deadline:
			t.Fatalf("not within 3 minutes: %s; %d pods, %d nodes", what, len(s.pods()), len(s.nodes()))
		}
	}
}

// deployment has pods that need one CPU each.
func deployment(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "load"}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "load"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "load", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}},
		}}}},
	}}
}
