package snapshot

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"
)

func object(t failer, text string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: parse(t, []byte(text))}
}

func TestLeaveOut(t *testing.T) {
	for text, want := range map[string]string{
		"{apiVersion: v1, kind: Event, metadata: {name: a}}":                                                                                                                                                              "past",
		"{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: a}}":                                                                                                                                          "holders",
		"{apiVersion: v1, kind: Secret, type: kubernetes.io/service-account-token, metadata: {name: a}}":                                                                                                                  "tokens",
		"{apiVersion: v1, kind: Secret, type: Opaque, metadata: {name: a}}":                                                                                                                                               "",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: kube-root-ca.crt, namespace: a}}":                                                                                                                             "controller",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: extension-apiserver-authentication, namespace: a}}":                                                                                                           "",
		"{apiVersion: v1, kind: Service, metadata: {name: kubernetes, namespace: default}}":                                                                                                                               "API server",
		"{apiVersion: v1, kind: Service, metadata: {name: kubernetes, namespace: a}}":                                                                                                                                     "",
		"{apiVersion: v1, kind: Endpoints, metadata: {name: a, annotations: {endpoints.kubernetes.io/last-change-trigger-time: x}}}":                                                                                      "controller",
		"{apiVersion: v1, kind: Endpoints, metadata: {name: a}}":                                                                                                                                                          "",
		"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a, labels: {endpointslice.kubernetes.io/managed-by: endpointslice-controller.k8s.io}}}":                                                  "controller",
		"{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a, labels: {endpointslice.kubernetes.io/managed-by: mine}}}":                                                                             "",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a, labels: {kubernetes.io/bootstrapping: rbac-defaults}}}":                                                                        "API server",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a, labels: {kubernetes.io/bootstrapping: rbac-defaults}, annotations: {rbac.authorization.kubernetes.io/autoupdate: \"false\"}}}": "",
		"{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1., labels: {kube-aggregator.kubernetes.io/automanaged: onstart}}}":                                                                  "API server",
		"{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1beta1.metrics.k8s.io}, spec: {group: metrics.k8s.io}}":                                                                              "API server",
		"{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1beta1.metrics.k8s.io}, spec: {group: metrics.k8s.io, service: {name: metrics-server, namespace: kube-system}}}":                     "",
		"{apiVersion: flowcontrol.apiserver.k8s.io/v1, kind: FlowSchema, metadata: {name: a, annotations: {apf.kubernetes.io/autoupdate-spec: \"true\"}}}":                                                                "API server",
		"{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: system-node-critical}}":                                                                                                                 "API server",
		"{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: kubernetes}}":                                                                                                                             "API server",
	} {
		if got := LeaveOut(object(t, text)); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestRank(t *testing.T) {
	pod, secret := schema.GroupKind{Kind: "Pod"}, schema.GroupKind{Kind: "Secret"}
	kinds := []schema.GroupKind{
		{Group: admission, Kind: "ValidatingWebhookConfiguration"}, {Kind: "ResourceQuota"}, pod, {Group: apps, Kind: "ReplicaSet"}, {Group: apps, Kind: "Deployment"},
		{Group: "example.com", Kind: "Widget"}, {Kind: "PersistentVolume"}, {Kind: "PersistentVolumeClaim"}, secret, {Group: rbac, Kind: "RoleBinding"},
		{Group: rbac, Kind: "Role"}, {Kind: "ServiceAccount"}, {Group: storage, Kind: "StorageClass"}, {Kind: "Namespace"}, CRD,
	}
	sorted := slices.Clone(kinds)
	slices.SortFunc(sorted, CompareKinds)
	slices.Reverse(kinds)
	// Roles and service accounts have one rank; there the names decide.
	if i := slices.Index(kinds, schema.GroupKind{Kind: "ServiceAccount"}); sorted[i] != kinds[i] {
		t.Errorf("%v", sorted)
	}
	if d := cmp.Diff(kinds, sorted); d != "" {
		t.Error(d)
	}
}

func TestOmitSecretData(t *testing.T) {
	secret := object(t, `{apiVersion: v1, kind: Secret, type: kubernetes.io/dockerconfigjson, data: {password: c2VjcmV0, .dockerconfigjson: c2VjcmV0},
metadata: {name: a, annotations: {kubectl.kubernetes.io/last-applied-configuration: c2VjcmV0, kept: a}}}`)
	OmitSecretData(secret)
	want := object(t, `{apiVersion: v1, kind: Secret, type: kubernetes.io/dockerconfigjson, data: {password: b21pdHRlZA==, .dockerconfigjson: e30=}, metadata: {name: a, annotations: {kept: a}}}`)
	if d := cmp.Diff(want, secret); d != "" {
		t.Error(d)
	}
	other := object(t, `{apiVersion: v1, kind: ConfigMap, data: {a: c2VjcmV0}}`)
	OmitSecretData(other)
	if other.Object["data"].(map[string]any)["a"] != "c2VjcmV0" {
		t.Error("a ConfigMap was changed")
	}
}

func TestDetach(t *testing.T) {
	job := object(t, `
apiVersion: batch/v1
kind: Job
metadata:
  {name: a, uid: u, resourceVersion: "7", generation: 3, creationTimestamp: t, managedFields: [{}], selfLink: s, finalizers: [orphan, kept],
   deletionTimestamp: "2026-01-02T03:04:05Z", deletionGracePeriodSeconds: 0, labels: {controller-uid: u, app: a}}
spec:
  selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}}
  template: {metadata: {labels: {controller-uid: u, batch.kubernetes.io/controller-uid: u, job-name: a}}}
status: {observedGeneration: 3, conditions: [{observedGeneration: 2}]}
`)
	o := Detach(job)
	want := object(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: a, finalizers: [kept], labels: {controller-uid: u, app: a}}, spec: {template: {metadata: {labels: {job-name: a}}}}}`)
	if d := cmp.Diff(want, job); d != "" {
		t.Error(d)
	}
	if !o.Terminating || o.Propagation != metav1.DeletePropagationOrphan || *o.GracePeriod != 0 || o.UID != "u" {
		t.Errorf("%+v", o)
	}
	status := map[string]any{"observedGeneration": int64(5), "conditions": []any{map[string]any{"observedGeneration": int64(4)}}}
	if d := cmp.Diff(any(status), o.StatusFor(5)); d != "" {
		t.Error(d)
	}
	manual := object(t, `{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {manualSelector: true, selector: {matchLabels: {a: b}}}}`)
	Detach(manual)
	if _, ok, _ := unstructured.NestedMap(manual.Object, "spec", "selector"); !ok {
		t.Error("a selector of the user was removed")
	}
}

func TestDropAllocations(t *testing.T) {
	for text, want := range map[string]string{
		"{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ports: [{port: 80, nodePort: 30000}], healthCheckNodePort: 1}": "{ports: [{port: 80}]}",
		"{clusterIP: None, clusterIPs: [None], ports: [{port: 80}]}":                                                  "",
	} {
		s := object(t, "{apiVersion: v1, kind: Service, spec: "+text+"}")
		dropped := DropAllocations(s)
		if dropped != (want != "") {
			t.Errorf("%s: %v", text, dropped)
		}
		if want == "" {
			want = text
		}
		if d := cmp.Diff(object(t, "{apiVersion: v1, kind: Service, spec: "+want+"}"), s); d != "" {
			t.Error(d)
		}
	}
}

const (
	savedUID   = "00000000-0000-0000-0000-00000000000"
	createdUID = "11111111-1111-1111-1111-11111111111"
)

// states has a UID of each state: 0 unknown, 1 pending, 2 created, 3 failed.
func states(uid string) (string, State) {
	if !strings.HasPrefix(uid, savedUID) {
		return "", Unknown
	}
	s := State(uid[len(uid)-1] - '0')
	if s == Created {
		return createdUID + "2", s
	}
	return "", s
}

func TestRelinkOwners(t *testing.T) {
	ref := func(n string) string { return "{kind: A, name: n" + n + ", uid: " + savedUID + n + "}" }
	obj := object(t, "{metadata: {ownerReferences: ["+ref("0")+","+ref("1")+","+ref("2")+","+ref("3")+"]}}")
	got := RelinkOwners(obj, states)
	if d := cmp.Diff(Owners{Unknown: []string{"A n0"}, Pending: []string{"A n1"}, Failed: []string{"A n3"}}, got); d != "" {
		t.Error(d)
	}
	want := object(t, "{metadata: {ownerReferences: ["+ref("1")+",{kind: A, name: n2, uid: "+createdUID+"2},"+ref("3")+"]}}")
	if d := cmp.Diff(want, obj); d != "" {
		t.Error(d)
	}
	only := object(t, "{metadata: {name: a, ownerReferences: ["+ref("0")+"]}}")
	RelinkOwners(only, states)
	if d := cmp.Diff(object(t, "{metadata: {name: a}}"), only); d != "" {
		t.Error(d)
	}
}

func TestRelink(t *testing.T) {
	obj := object(t, "{metadata: {labels: {controller-uid: "+savedUID+"2}, ownerReferences: [{uid: "+savedUID+"1}]}, spec: {claimRef: {uid: "+savedUID+"2}, text: x-"+savedUID+"2}}").Object
	if !Relink(obj, states) {
		t.Error("all references outside of ownerReferences are created")
	}
	want := object(t, "{metadata: {labels: {controller-uid: "+createdUID+"2}, ownerReferences: [{uid: "+savedUID+"1}]}, spec: {claimRef: {uid: "+createdUID+"2}, text: x-"+savedUID+"2}}").Object
	if d := cmp.Diff(want, obj); d != "" {
		t.Error(d)
	}
	pending := object(t, "{spec: {claimRef: {name: a, uid: "+savedUID+"1}, list: ["+savedUID+"1, "+savedUID+"2]}}").Object
	if Relink(pending, states) {
		t.Error("a reference is pending")
	}
	want = object(t, "{spec: {claimRef: {name: a}, list: ["+savedUID+"1, "+createdUID+"2]}}").Object
	if d := cmp.Diff(want, pending); d != "" {
		t.Error(d)
	}
}

// TestRelinkProperty: once all objects are created, no saved UID is left, and a second pass changes nothing.
func TestRelinkProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := genMap(2).Draw(t, "doc")
		doc["refs"] = rapid.SliceOf(rapid.OneOf(rapid.Just[any](savedUID+"2"), rapid.Just[any](map[string]any{"uid": savedUID + "2"}))).Draw(t, "refs")
		complete := Relink(doc, states)
		text, err := AppendJSON(nil, doc)
		if err != nil || !complete || strings.Contains(string(text), savedUID) {
			t.Fatalf("%v %v %s", err, complete, text)
		}
		again := runtime.DeepCopyJSON(doc)
		if Relink(again, states); !cmp.Equal(doc, again) {
			t.Fatal(cmp.Diff(doc, again))
		}
	})
}
