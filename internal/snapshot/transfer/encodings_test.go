package transfer_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/cluster"
	"github.com/rehearse-k8s/rehearse/internal/snapshot/transfer"
)

// encodings collects the encodings of the writes of one client.
type encodings struct {
	mu     sync.Mutex
	writes map[string][]string // by method and path
}

// client returns a configuration whose writes are collected. With reject, the API server does not accept protobuf.
func (e *encodings) client(config *rest.Config, reject bool) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			encoding := strings.TrimPrefix(r.Header.Get("Content-Type"), "application/")
			if r.Method == http.MethodPost || r.Method == http.MethodPut {
				e.mu.Lock()
				key := r.Method + " " + r.URL.Path
				e.writes[key] = append(e.writes[key], encoding)
				e.mu.Unlock()
			}
			if !reject || encoding != "vnd.kubernetes.protobuf" {
				return next.RoundTrip(r)
			}
			_, _ = io.Copy(io.Discard, r.Body)
			body, err := json.Marshal(metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType})
			return &http.Response{
				StatusCode: http.StatusUnsupportedMediaType, Request: r, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(bytes.NewReader(body)),
			}, err
		})
	})
	return config
}

// TestRestoreEncodings: built-in kinds are sent in protobuf, unless that would lose something of an object; an API server that does not accept it gets JSON.
func TestRestoreEncodings(t *testing.T) {
	c := startCluster(t, cluster.Options{Controllers: noControllers})
	k := connect(t, c.RESTConfig())
	const protobuf, inJSON = "vnd.kubernetes.protobuf", "json"
	pods := "/api/v1/namespaces/NS/pods"
	for ns, want := range map[string]map[string][]string{
		"encodings": {
			"POST /api/v1/namespaces":                                      {protobuf},
			"POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions": {inJSON},
			"POST /api/v1/nodes":                                           {inJSON},
			"PUT /api/v1/nodes/NS":                                         {inJSON}, // the taint
			"PUT /api/v1/nodes/NS/status":                                  {inJSON},
			"POST " + pods:                                                 {protobuf, inJSON, protobuf},
			"PUT " + pods + "/plain/status":                                {protobuf},
			"PUT " + pods + "/new/status":                                  {inJSON},
			"PUT " + pods + "/new-status/status":                           {inJSON},
			"POST /apis/apps/v1/namespaces/NS/statefulsets":                {protobuf},
			"POST /api/v1/namespaces/NS/serviceaccounts":                   {protobuf},
			"POST /apis/example.com/v1/namespaces/NS/widgets":              {inJSON},
		},
		"rejected": {
			"POST /api/v1/namespaces":                                      {protobuf, inJSON},
			"POST /apis/apiextensions.k8s.io/v1/customresourcedefinitions": {inJSON},
			"POST /api/v1/nodes":                                           {inJSON},
			"PUT /api/v1/nodes/NS":                                         {inJSON},
			"PUT /api/v1/nodes/NS/status":                                  {inJSON},
			"POST " + pods:                                                 {protobuf, inJSON, inJSON, inJSON}, // one attempt for all pods
			"PUT " + pods + "/plain/status":                                {inJSON},
			"PUT " + pods + "/new/status":                                  {inJSON},
			"PUT " + pods + "/new-status/status":                           {inJSON},
			"POST /apis/apps/v1/namespaces/NS/statefulsets":                {protobuf, inJSON},
			"POST /api/v1/namespaces/NS/serviceaccounts":                   {protobuf, inJSON},
			"POST /apis/example.com/v1/namespaces/NS/widgets":              {inJSON},
		},
	} {
		t.Run(ns, func(t *testing.T) {
			named := func(text string) string { return strings.ReplaceAll(text, "NS", ns) }
			group := ns + ".example.com"
			objects := []string{
				named("{apiVersion: v1, kind: Namespace, metadata: {name: NS}}"),
				strings.ReplaceAll(widgets, "example.com", group),
				named("{apiVersion: v1, kind: Node, metadata: {name: NS}, status: {phase: Running}}"),
				named("{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: NS}}"),
				named("{apiVersion: v1, kind: Pod, metadata: {name: plain, namespace: NS, labels: {a: b}}, spec: {nodeName: NS, containers: [{name: a, image: b}]}, status: {phase: Running, podIP: 10.0.0.1}}"),
				named("{apiVersion: v1, kind: Pod, metadata: {name: new, namespace: NS}, spec: {fieldOfTheFuture: 1, containers: [{name: a, image: b}]}, status: {phase: Running}}"),
				named("{apiVersion: v1, kind: Pod, metadata: {name: new-status, namespace: NS}, spec: {containers: [{name: a, image: b}]}, status: {phase: Running, fieldOfTheFuture: 1}}"),
				named("{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, namespace: NS}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: b}]}}, volumeClaimTemplates: [{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}"),
				named("{apiVersion: " + group + "/v1, kind: Widget, metadata: {name: a, namespace: NS}}"),
			}
			seen, warned := &encodings{writes: map[string][]string{}}, &warnings{}
			result, err := transfer.Restore(t.Context(), seen.client(c.RESTConfig(), ns == "rejected"), bytes.NewReader(file(t, objects...)), transfer.RestoreOptions{Parallel: 1, Warn: warned.add})
			if err != nil || result.Created != len(objects) {
				t.Fatalf("%v: %+v", err, result)
			}
			unknown := []string{
				named(`Pod NS/new: unknown field "spec.fieldOfTheFuture" is not restored`),
				named(`Pod NS/new-status: unknown field "status.fieldOfTheFuture" is not restored`),
			}
			if d := cmp.Diff(unknown, warned.text); d != "" {
				t.Errorf("warnings: (-want +got)\n%s", d)
			}
			expected := map[string][]string{}
			for path, encodings := range want {
				expected[strings.ReplaceAll(named(path), "apis/example.com", "apis/"+group)] = encodings
			}
			if d := cmp.Diff(expected, seen.writes); d != "" {
				t.Error(d)
			}
			for _, name := range []string{"plain", "new", "new-status"} {
				pod := k.get("v1/pods", ns, name)
				if status, _ := pod.Object["status"].(map[string]any); status["phase"] != "Running" || pod.GetManagedFields()[0].Manager != transfer.Manager {
					t.Error(pod)
				}
			}
			set := k.get("apps/v1/statefulsets", ns, "a").Object["spec"].(map[string]any)
			if claim := set["volumeClaimTemplates"].([]any)[0].(map[string]any); claim["kind"] != "PersistentVolumeClaim" || claim["apiVersion"] != "v1" {
				t.Error(claim)
			}
		})
	}
}
