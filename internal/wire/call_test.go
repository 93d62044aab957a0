package wire_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rehearse-k8s/rehearse/fault"
	"github.com/rehearse-k8s/rehearse/history"
	"github.com/rehearse-k8s/rehearse/internal/wire"
)

func describe(t testing.TB, method, target string, body []byte) wire.Call {
	t.Helper()
	u, err := url.Parse("https://api" + target)
	if err != nil {
		t.Fatal(err)
	}
	return wire.DescribeCall(method, u, http.Header{}, body)
}

func object(resource, namespace, name string) history.Object {
	return history.Object{Resource: resource, Namespace: namespace, Name: name}
}

func TestDescribeCall(t *testing.T) {
	pods := "/api/v1/namespaces/default/pods"
	for _, tc := range []struct {
		method, target string
		want           wire.Call
	}{
		{"GET", pods, wire.Call{Verb: "list", Object: object("pods", "default", "")}},
		{"GET", pods + "/a", wire.Call{Verb: "get", Object: object("pods", "default", "a")}},
		{"HEAD", pods + "/a", wire.Call{Verb: "get", Object: object("pods", "default", "a")}},
		{"GET", pods + "/a/log?follow=true&container=c", wire.Call{
			Verb: "get", Object: object("pods", "default", "a"), Subresource: "log", Query: "container=c&follow=true"}},
		{"GET", "/api/v1/pods?watch=1&resourceVersion=7&timeoutSeconds=301&allowWatchBookmarks=true", wire.Call{
			Verb: "watch", Object: object("pods", "", ""), Watch: true, FromRevision: "7"}},
		{"GET", "/api/v1/pods?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=", wire.Call{
			Verb: "watch", Object: object("pods", "", ""), Watch: true, SendInitialEvents: true, Older: true,
			Query: "resourceVersionMatch=NotOlderThan&sendInitialEvents=true"}},
		{"GET", "/api/v1/pods?limit=500&resourceVersion=0", wire.Call{
			Verb: "list", Object: object("pods", "", ""), FromRevision: "0", Older: true, Query: "limit=500"}},
		{"GET", "/api/v1/pods?resourceVersion=7", wire.Call{Verb: "list", Object: object("pods", "", ""), FromRevision: "7", Older: true}},
		{"GET", "/api/v1/pods?limit=500&resourceVersion=7", wire.Call{Verb: "list", Object: object("pods", "", ""), FromRevision: "7", Query: "limit=500"}},
		{"GET", "/api/v1/pods?limit=5&resourceVersion=7&resourceVersionMatch=NotOlderThan", wire.Call{
			Verb: "list", Object: object("pods", "", ""), FromRevision: "7", Older: true, Query: "limit=5&resourceVersionMatch=NotOlderThan"}},
		{"GET", "/api/v1/pods?resourceVersion=7&resourceVersionMatch=Exact", wire.Call{
			Verb: "list", Object: object("pods", "", ""), FromRevision: "7", Query: "resourceVersionMatch=Exact"}},
		{"GET", "/api/v1/pods?continue=abc&limit=5", wire.Call{Verb: "list", Object: object("pods", "", ""), Continue: "abc", Query: "continue=abc&limit=5"}},
		{"GET", pods + "/a?resourceVersion=0", wire.Call{Verb: "get", Object: object("pods", "default", "a"), FromRevision: "0"}},
		{"GET", "/api/v1/pods?watch=0", wire.Call{Verb: "list", Object: object("pods", "", "")}},
		{"GET", "/api/v1/pods?watch=False", wire.Call{Verb: "list", Object: object("pods", "", "")}},
		{"GET", pods + "/a?watch=1", wire.Call{Verb: "get", Object: object("pods", "default", "a")}},
		{"GET", "/api/v1/watch/namespaces/default/pods/a", wire.Call{Verb: "watch", Object: object("pods", "default", "a"), Watch: true}},
		{"GET", "/apis/batch/v1/jobs?limit=500&labelSelector=app%3Dweb%2Ctier+in+%28a%2Cb%29&fieldSelector=metadata.name%3Dx", wire.Call{
			Verb: "list", Object: object("jobs.batch", "", ""),
			Query: "fieldSelector=metadata.name=x&labelSelector=app=web,tier in (a,b)&limit=500"}},
		{"POST", pods + "?fieldManager=job&dryRun=All&timeout=10s", wire.Call{
			Verb: "create", Object: object("pods", "default", ""), Query: "dryRun=All&fieldManager=job"}},
		{"PUT", "/apis/batch/v1/namespaces/n/jobs/j/status", wire.Call{
			Verb: "update", Object: object("jobs.batch", "n", "j"), Subresource: "status"}},
		{"PATCH", pods + "/a", wire.Call{Verb: "patch", Object: object("pods", "default", "a")}},
		{"DELETE", pods + "/a", wire.Call{Verb: "delete", Object: object("pods", "default", "a")}},
		{"DELETE", pods, wire.Call{Verb: "deletecollection", Object: object("pods", "default", "")}},
		{"GET", "/api/v1/namespaces", wire.Call{Verb: "list", Object: object("namespaces", "", "")}},
		{"GET", "/api/v1/namespaces/n", wire.Call{Verb: "get", Object: object("namespaces", "", "n")}},
		{"PUT", "/api/v1/namespaces/n/finalize", wire.Call{Verb: "update", Object: object("namespaces", "", "n"), Subresource: "finalize"}},
		{"GET", "/api/v1/nodes/n1/status", wire.Call{Verb: "get", Object: object("nodes", "", "n1"), Subresource: "status"}},
		{"GET", "/apis/apps/v1", wire.Call{Verb: "get", Object: object("", "", "/apis/apps/v1")}},
		{"GET", "/apis", wire.Call{Verb: "get", Object: object("", "", "/apis")}},
		{"GET", "/readyz?verbose", wire.Call{Verb: "get", Object: object("", "", "/readyz")}},
		{"POST", "/", wire.Call{Verb: "post", Object: object("", "", "/")}},
		{"GET", "/api/v1/watch", wire.Call{Verb: "get", Object: object("", "", "/api/v1/watch")}},
	} {
		if d := cmp.Diff(tc.want, describe(t, tc.method, tc.target, nil)); d != "" {
			t.Errorf("%s %s (-want +got)\n%s", tc.method, tc.target, d)
		}
	}
}

// TestAgreesWithTheServer compares with what the API server itself makes of a request.
func TestAgreesWithTheServer(t *testing.T) {
	factory := request.RequestInfoFactory{
		APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api"),
	}
	resources := []string{"", "/", "pods", "pods/a", "pods/a/status", "pods/a/proxy/x/y", "namespaces", "namespaces/n", "namespaces/n/status",
		"namespaces/n/finalize", "namespaces/n/pods", "namespaces/n/pods/a", "namespaces/n/pods/a/exec", "namespaces/n/jobs", "watch/pods",
		"watch/namespaces/n/pods/a", "watch", "namespaces/n/namespaces", "namespaces/n/"}
	for _, prefix := range []string{"/api/v1/", "/apis/batch/v1/", "/api/", "/apis/", "/other/v1/", "/"} {
		for _, resource := range resources {
			for _, query := range []string{"", "?watch=true", "?watch=false", "?watch", "?watch=0", "?watch=yes"} {
				for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
					target := prefix + resource + query
					u, err := url.Parse("https://api" + target)
					if err != nil {
						t.Fatal(err)
					}
					info, err := factory.NewRequestInfo(&http.Request{Method: method, URL: u})
					if err != nil {
						continue
					}
					if !info.IsResourceRequest {
						info = &request.RequestInfo{Verb: info.Verb, Name: u.Path}
					}
					if info.Resource == "namespaces" && info.Namespace == info.Name {
						info.Namespace = ""
					}
					if info.APIGroup != "" {
						info.Resource += "." + info.APIGroup
					}
					got := describe(t, method, target, nil)
					want := wire.Call{Object: object(info.Resource, info.Namespace, info.Name), Verb: info.Verb, Subresource: info.Subresource,
						Watch: info.Verb == "watch"}
					got.Query = ""
					if d := cmp.Diff(want, got); d != "" {
						t.Fatalf("%s %s (-server +ours)\n%s", method, target, d)
					}
				}
			}
		}
	}
}

func TestBodies(t *testing.T) {
	pods := "/api/v1/namespaces/default/pods"
	bare := pod("a", "", "")
	generated := pod("", "", "")
	generated.GenerateName = "web-"
	uid, rv := types.UID(uidA), "7"
	for _, tc := range []struct {
		name, method, target string
		body                 runtime.Object
		want                 history.Object
		generateName         string
		guarded, versioned   bool
	}{
		{"create", "POST", pods, bare, object("pods", "default", "a"), "", false, false},
		{"create that says a UID", "POST", pods, pod("a", uidA, ""), object("pods", "default", "a"), "", false, false},
		{"create with a generated name", "POST", pods, generated, object("pods", "default", ""), "web-", false, false},
		{"update", "PUT", pods + "/a", pod("a", uidA, "7"), object("pods", "default", "a"), "", true, true},
		{"update with a UID only", "PUT", pods + "/a", pod("a", uidA, ""), object("pods", "default", "a"), "", true, false},
		{"unconditional update", "PUT", pods + "/a", bare, object("pods", "default", "a"), "", false, false},
		{"delete", "DELETE", pods + "/a", &metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, object("pods", "default", "a"), "", false, false},
		{"delete of a UID", "DELETE", pods + "/a", &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}, object("pods", "default", "a"), "", true, false},
		{"delete at a revision", "DELETE", pods + "/a", &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &rv}}, object("pods", "default", "a"), "", true, true},
		{"delete with empty preconditions", "DELETE", pods + "/a", &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{}}, object("pods", "default", "a"), "", false, false},
		{"bind", "POST", pods + "/a/binding", &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: uid}}, object("pods", "default", "a"), "", true, false},
		{"evict", "POST", pods + "/a/eviction", &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, object("pods", "default", "a"), "", false, false},
		{"evict a UID", "POST", pods + "/a/eviction", &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a"},
			DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}}, object("pods", "default", "a"), "", true, false},
		{"lease", "PUT", "/apis/coordination.k8s.io/v1/namespaces/x/leases/l", &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l", ResourceVersion: rv}},
			object("leases.coordination.k8s.io", "x", "l"), "", true, true},
		{"custom resource", "POST", "/apis/example.com/v1/namespaces/x/widgets", &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w"},
			"code": int64(5), "details": map[string]any{"name": "not me"}, "rows": []any{"no"}}}, object("widgets.example.com", "x", "w"), "", false, false},
	} {
		for _, mediaType := range []string{jsonType, protobufType} {
			got := describe(t, tc.method, tc.target, encode(t, mediaType, tc.body))
			if got.Object != tc.want || got.GenerateName != tc.generateName || got.Preconditioned != tc.guarded || got.Versioned != tc.versioned || len(got.Digest) != 16 {
				t.Errorf("%s in %s: got %+v", tc.name, mediaType, got)
			}
		}
	}
	yaml := describe(t, "POST", pods, []byte("kind: Pod\nmetadata:\n  name: a\n"))
	if yaml.Object != object("pods", "default", "") || yaml.Digest == "" {
		t.Errorf("YAML: got %+v", yaml)
	}
}

func TestPatchesThatNameAVersion(t *testing.T) {
	for _, tc := range []struct {
		mediaType types.PatchType
		body      string
		names     bool
		versioned bool
	}{
		{types.MergePatchType, `{"metadata":{"resourceVersion":"7"},"spec":{}}`, true, true},
		{types.MergePatchType, `{"metadata":{"uid":"` + uidA + `"}}`, true, false},
		{types.MergePatchType, `{"metadata":{"annotations":{"seen":"resourceVersion"}},"resourceVersion":"7"}`, false, false},
		{types.MergePatchType, `{"metadata":{"ownerReferences":[{"uid":"` + uidA + `"}]}}`, false, false},
		{types.StrategicMergePatchType, `{"spec":{},"metadata":{"resourceVersion":"7"}}`, true, true},
		{types.ApplyYAMLPatchType, "metadata:\n  name: a\n  resourceVersion: \"7\"\n", true, true},
		{types.ApplyYAMLPatchType, "metadata:\n  name: a\n", false, false},
		{types.ApplyYAMLPatchType, ":", false, false},
		{types.JSONPatchType, `[{"op":"test","path":"/metadata/resourceVersion","value":"7"}]`, true, false},
		{types.JSONPatchType, `[{"op":"add","path":"/a","value":1},{"op":"replace","path":"/metadata/uid","value":"x"}]`, true, false},
		{types.JSONPatchType, `[{"op":"add","path":"/metadata/annotations/x","value":"/metadata/resourceVersion"}]`, false, false},
		{types.JSONPatchType, `[`, false, false},
	} {
		u, err := url.Parse("/api/v1/namespaces/default/pods/a")
		if err != nil {
			t.Fatal(err)
		}
		c := wire.DescribeCall("PATCH", u, http.Header{"Content-Type": {string(tc.mediaType)}}, []byte(tc.body))
		if c.Preconditioned != tc.names || c.Versioned != tc.versioned {
			t.Errorf("%s %s: got preconditioned %t, versioned %t", tc.mediaType, tc.body, c.Preconditioned, c.Versioned)
		}
	}
}

func TestCallItem(t *testing.T) {
	c := describe(t, "PUT", "/apis/batch/v1/namespaces/n/jobs/j/status", mustJSON(t, pod("j", "", "4")))
	want := fault.Item{Class: fault.Call, Actor: "job/1", Verb: "update", Resource: "jobs.batch/status", Object: "n/j", Write: true, Versioned: true}
	if got := c.Item("job/1"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	f, err := fault.Parse("conflict actor=job resource=jobs.batch object=n/j")
	if err != nil {
		t.Fatal(err)
	}
	if !f.Matches(want) {
		t.Errorf("%s does not match", f)
	}
}

func TestDescribePath(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/namespaces/a/pods/p/status":                 "update pods/status a p",
		"/prefix/k8s/api/v1/namespaces/a/pods/p/status":      "update pods/status a p",
		"/apis/example.com/v1/widgets/api/status":            "update widgets.example.com/status  api",
		"/p/apis/example.com/v1/namespaces/apis/widgets/api": "update widgets.example.com/ apis api",
		"/version": "put /  /version",
	} {
		c := wire.DescribePath("PUT", path)
		if got := fmt.Sprintf("%s %s/%s %s %s", c.Verb, c.Resource, c.Subresource, c.Namespace, c.Name); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
