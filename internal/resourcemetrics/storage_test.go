package resourcemetrics

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/metrics"

	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
	"github.com/rehearse-k8s/rehearse/internal/usage"
)

var now = time.Date(2027, 3, 1, 9, 0, 0, 0, time.UTC)

// api is a cluster: pods, nodes, and lists of the objects that define usage, as JSON by resource. It answers the requests of a client.
type api struct {
	pods     []*corev1.Pod
	nodes    []corev1.Node
	usages   map[string]string
	failing  string // the end of the path of the requests that fail
	warnings []string
}

// Pods implements Pods.
func (a *api) Pods(_ context.Context, namespace string) (out []*corev1.Pod, err error) {
	for _, p := range a.pods {
		if namespace == "" || p.Namespace == namespace {
			out = append(out, p)
		}
	}
	return out, nil
}

// Pod implements Pods.
func (a *api) Pod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	for _, p := range a.pods {
		if p.Namespace == namespace && p.Name == name {
			return p, nil
		}
	}
	return nil, nil
}

// RoundTrip implements http.RoundTripper.
func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	code, body := http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`
	resource := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	switch {
	case resource == a.failing:
		code, body = http.StatusInternalServerError, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"broken","reason":"InternalError","code":500}`
	case resource == "nodes":
		items := []corev1.Node{}
		for _, n := range a.nodes {
			if name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name="); name == "" || name == n.Name {
				items = append(items, n)
			}
		}
		data, err := json.Marshal(corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: items})
		if err != nil {
			return nil, err
		}
		code, body = http.StatusOK, string(data)
	case a.usages[resource] != "":
		code, body = http.StatusOK, a.usages[resource]
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewBufferString(body)), Request: r,
	}, nil
}

// AddWarning implements warning.Recorder.
func (a *api) AddWarning(_, text string) { a.warnings = append(a.warnings, text) }

func (a *api) pod(namespace, name, node string, containers ...string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: apitypes.UID(namespace + name), Labels: map[string]string{"app": name}, Annotations: map[string]string{}},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range containers {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: c})
	}
	a.pods = append(a.pods, p)
	return p
}

func (a *api) node(name string) {
	a.nodes = append(a.nodes, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": name}}})
}

// source returns a connected source with the rules of a file.
func (a *api) source(t *testing.T, file string) *Source {
	t.Helper()
	set := &rules.Set{}
	if file != "" {
		if err := set.Add("usage.yaml", []byte(file)); err != nil {
			t.Fatal(err)
		}
	}
	s := New(Options{Rules: set, Now: func() time.Time { return now }})
	s.Connect(&clientrest.Config{Host: "http://cluster.invalid", Transport: a}, a)
	return s
}

// request returns the context of a request in a namespace.
func (a *api) request(t *testing.T, namespace string) context.Context {
	a.warnings = nil
	return warning.WithWarningRecorder(genericapirequest.WithNamespace(t.Context(), namespace), a)
}

// list lists a resource and prints each object with its usage.
func (a *api) list(t *testing.T, s *Source, resource, namespace string, o *internalversion.ListOptions) string {
	t.Helper()
	object, err := s.Storages()[resource].(rest.Lister).List(a.request(t, namespace), o)
	if err != nil {
		return "error: " + err.Error()
	}
	return text(t, object)
}

func (a *api) get(t *testing.T, s *Source, resource, namespace, name string) string {
	t.Helper()
	object, err := s.Storages()[resource].(rest.Getter).Get(a.request(t, namespace), name, nil)
	if err != nil {
		return "error: " + err.Error()
	}
	return text(t, object)
}

func text(t *testing.T, object any) string {
	t.Helper()
	var out []string
	add := func(meta metav1.ObjectMeta, at metav1.Time, window metav1.Duration, usages ...string) {
		if !at.Time.Equal(now) || window.Duration != time.Second || !meta.CreationTimestamp.Time.Equal(now) || len(meta.Labels) != 1 {
			t.Errorf("%+v is measured at %v over %v", meta, at, window)
		}
		name := strings.TrimPrefix(meta.Namespace+"/"+meta.Name, "/")
		out = append(out, name+": "+strings.Join(usages, ", "))
	}
	quantities := func(list corev1.ResourceList) string {
		cpu, memory := list[corev1.ResourceCPU], list[corev1.ResourceMemory]
		return cpu.String() + " " + memory.String()
	}
	pod := func(m metrics.PodMetrics) {
		var usages []string
		for _, c := range m.Containers {
			usages = append(usages, c.Name+" "+quantities(c.Usage))
		}
		add(m.ObjectMeta, m.Timestamp, m.Window, usages...)
	}
	node := func(m metrics.NodeMetrics) { add(m.ObjectMeta, m.Timestamp, m.Window, quantities(m.Usage)) }
	switch o := object.(type) {
	case *metrics.PodMetrics:
		pod(*o)
	case *metrics.PodMetricsList:
		for _, m := range o.Items {
			pod(m)
		}
	case *metrics.NodeMetrics:
		node(*o)
	case *metrics.NodeMetricsList:
		for _, m := range o.Items {
			node(m)
		}
	}
	return strings.Join(out, "; ")
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", what, got, want)
	}
}

const file = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterResourceUsage
metadata: {name: shop}
spec:
  selector: {matchNamespaces: [shop]}
  usages:
  - containers: [web]
    usage: {cpu: {value: 100m}, memory: {value: 10Mi}}
`

// TestPods: lists are sorted and contain the running pods that the selectors match.
func TestPods(t *testing.T) {
	a := &api{}
	s := a.source(t, file)
	a.pod("shop", "b", "node-0", "web", "vault")
	a.pod("shop", "a", "node-0", "web")
	a.pod("bank", "c", "node-0", "web").Annotations[usage.CPUAnnotation] = "2"
	a.pod("bank", "pending", "", "web").Status.Phase = corev1.PodPending
	equal(t, "all", a.list(t, s, "pods", "", nil), "bank/c: web 2 1Mi; shop/a: web 100m 10Mi; shop/b: web 100m 10Mi, vault 1m 1Mi")
	equal(t, "shop", a.list(t, s, "pods", "shop", &internalversion.ListOptions{}), "shop/a: web 100m 10Mi; shop/b: web 100m 10Mi, vault 1m 1Mi")
	equal(t, "app=a", a.list(t, s, "pods", "", &internalversion.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"app": "a"})}), "shop/a: web 100m 10Mi")
	equal(t, "name c", a.list(t, s, "pods", "", &internalversion.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", "c")}), "bank/c: web 2 1Mi")
	equal(t, "get", a.get(t, s, "pods", "shop", "a"), "shop/a: web 100m 10Mi")
	for _, name := range []string{"absent", "pending"} {
		equal(t, name, a.get(t, s, "pods", "bank", name), fmt.Sprintf(`error: pods.metrics.k8s.io %q not found`, name))
	}
}

// TestNodes: a node has the sum of its running pods.
func TestNodes(t *testing.T) {
	a := &api{}
	s := a.source(t, file)
	for _, name := range []string{"node-1", "node-0", "node-2"} {
		a.node(name)
	}
	a.pod("shop", "a", "node-0", "web", "vault")
	a.pod("bank", "c", "node-0", "web")
	a.pod("bank", "d", "node-1", "web")
	a.pod("bank", "pending", "", "web").Status.Phase = corev1.PodPending
	equal(t, "all", a.list(t, s, "nodes", "", nil), "node-0: 102m 12Mi; node-1: 1m 1Mi; node-2: 0 0")
	equal(t, "get", a.get(t, s, "nodes", "", "node-1"), "node-1: 1m 1Mi")
	equal(t, "absent", a.get(t, s, "nodes", "", "x"), `error: nodes.metrics.k8s.io "x" not found`)
	equal(t, "selectors", fmt.Sprint(selectors(&internalversion.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{"zone": "a"})}).LabelSelector), "zone=a")
}

// TestErrors: a pod whose usage has an error has no metrics. Lists leave it out with a warning.
func TestErrors(t *testing.T) {
	a := &api{}
	s := a.source(t, "")
	a.node("node-0")
	a.pod("shop", "good", "node-0", "web")
	for i := range maxWarnings + 2 {
		a.pod("shop", fmt.Sprintf("bad-%d", i), "node-0", "web").Annotations[usage.CPUAnnotation] = "much"
	}
	reason := `annotation kwok.x-k8s.io/usage-cpu: "much" is not a quantity of at least 0`
	for resource, want := range map[string]string{"pods": "shop/good: web 1m 1Mi", "nodes": "node-0: 1m 1Mi"} {
		equal(t, resource, a.list(t, s, resource, "", nil), want)
		if len(a.warnings) != maxWarnings+1 || a.warnings[0] != "no metrics of pod shop/bad-0: "+reason || a.warnings[maxWarnings] != "no metrics of 2 more pods" {
			t.Errorf("%s: warnings %q", resource, a.warnings)
		}
	}
	equal(t, "get", a.get(t, s, "pods", "shop", "bad-0"), "error: Internal error occurred: "+reason)

	_, err := New(Options{}).Storages()["pods"].(rest.Lister).List(t.Context(), nil)
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("before Connect: %v", err)
	}
	for _, failing := range []string{"resourceusages", "clusterresourceusages", "nodes"} {
		a.failing = failing
		if got := a.list(t, s, "nodes", "", nil); !strings.Contains(got, "broken") {
			t.Errorf("%s fails: %s", failing, got)
		}
	}
}

// TestStoredRules: objects of the API follow those of files; the oldest of the Cluster kind decides, and expressions read nodes and the
// pods of nodes.
func TestStoredRules(t *testing.T) {
	object := func(kind, name, created, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"kwok.x-k8s.io/v1alpha1","kind":%q,"metadata":{"name":%q,"namespace":"bank","creationTimestamp":%q},"spec":%s}`, kind, name, created, spec)
	}
	list := func(items ...string) string {
		return `{"apiVersion":"kwok.x-k8s.io/v1alpha1","kind":"List","items":[` + strings.Join(items, ",") + `]}`
	}
	cpu := func(expression string) string {
		return fmt.Sprintf(`{"usages":[{"usage":{"cpu":{"expression":%q}}}]}`, expression)
	}
	a := &api{usages: map[string]string{
		"resourceusages": list(object("ResourceUsage", "own", "2027-01-01T00:00:00Z", cpu(`Usage(node, "memory") / 1048576.0`))),
		"clusterresourceusages": list(
			object("ClusterResourceUsage", "b", "2027-01-02T00:00:00Z", cpu(`100`)),
			object("ClusterResourceUsage", "a", "2027-01-01T00:00:00Z", cpu(`node.metadata.name == "node-0" ? 5 : 6`))),
	}}
	s := a.source(t, file)
	a.node("node-0")
	a.pod("shop", "a", "node-0", "web")
	a.pod("bank", "own", "node-0", "web")
	a.pod("bank", "other", "node-0", "web")
	equal(t, "pods", a.list(t, s, "pods", "", nil), "bank/other: web 5 1Mi; bank/own: web 12 1Mi; shop/a: web 100m 10Mi")
	equal(t, "get", a.get(t, s, "pods", "bank", "own"), "bank/own: web 12 1Mi")
	equal(t, "nodes", a.list(t, s, "nodes", "", nil), "node-0: 17100m 12Mi")
	a.failing = "nodes"
	for _, got := range []string{a.list(t, s, "pods", "bank", nil), a.get(t, s, "pods", "bank", "other")} {
		if !strings.Contains(got, "broken") {
			t.Errorf("an expression reads a node and the nodes cannot be read: %s", got)
		}
	}
}

// TestTable: the table of a pod contains the sum of its containers.
func TestTable(t *testing.T) {
	a := &api{}
	s := a.source(t, file)
	a.node("node-0")
	a.pod("shop", "a", "node-0", "web", "vault")
	for _, resource := range []string{"pods", "nodes"} {
		storage := s.Storages()[resource]
		object, err := storage.(rest.Lister).List(a.request(t, ""), nil)
		if err != nil {
			t.Fatal(err)
		}
		name := map[string]string{"pods": "a", "nodes": "node-0"}[resource]
		single, err := storage.(rest.Getter).Get(a.request(t, "shop"), name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range []runtime.Object{object, single} {
			table, err := storage.(rest.TableConvertor).ConvertToTable(t.Context(), o, nil)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, resource, fmt.Sprint(table.Rows[0].Cells), "["+name+" 101m 11Mi 1s]")
		}
	}
}
