package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/cluster"
)

// stageCluster is a cluster with the kind Widget and a client.
func stageCluster(t *testing.T) client.Client {
	k, _ := configuredStageCluster(t)
	return k
}

func configuredStageCluster(t *testing.T) (client.Client, *rest.Config) {
	t.Helper()
	c := startCluster(t, cluster.Options{Controllers: []string{"stage"}})
	k, err := client.New(c.RESTConfig(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("testdata/widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	create(t, k, string(data))
	return k, c.RESTConfig()
}

// create creates an object from YAML, and retries while its kind is not served yet.
func create(t *testing.T, k client.Client, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	await(t, "created "+u.GetName(), func() error { return k.Create(t.Context(), u) })
	return u
}

func makeWidget(t *testing.T, k client.Client, name, more string) *unstructured.Unstructured {
	t.Helper()
	return create(t, k, fmt.Sprintf("apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: %s, namespace: default}\n%s", name, more))
}

func makeStage(t *testing.T, k client.Client, name, spec string) *unstructured.Unstructured {
	t.Helper()
	return create(t, k, fmt.Sprintf("apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: %s}\nspec:\n  resourceRef: {apiGroup: example.com/v1, kind: Widget}\n%s", name, spec))
}

func read(ctx context.Context, k client.Client, gvk schema.GroupVersionKind, namespace, name string) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	return u, k.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, u)
}

var widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

// field returns a text in an object.
func field(u *unstructured.Unstructured, path string) string {
	v, _, _ := unstructured.NestedFieldNoCopy(u.Object, strings.Split(path, ".")...)
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}

func awaitField(t *testing.T, k client.Client, name, path, want string) *unstructured.Unstructured {
	t.Helper()
	var got *unstructured.Unstructured
	await(t, name+" has "+path, func() error {
		var err error
		if got, err = read(t.Context(), k, widgetKind, "default", name); err == nil && field(got, path) != want {
			err = fmt.Errorf("%s is %q, want %q", path, field(got, path), want)
		}
		return err
	})
	return got
}

func awaitReady(t *testing.T, k client.Client, stage *unstructured.Unstructured, status, message string) {
	t.Helper()
	await(t, stage.GetName()+" has status "+status, func() error {
		u, err := read(t.Context(), k, stage.GroupVersionKind(), "", stage.GetName())
		if err != nil {
			return err
		}
		list, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, item := range list {
			if c := item.(map[string]any); c["type"] == "Ready" && c["status"] == status && strings.Contains(fmt.Sprint(c["message"]), message) {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", list)
	})
}

// awaitDenied waits until the API server no longer allows the user to write the status of widgets: its
// authorizer observes changed bindings through a watch, a moment after the write was answered.
func awaitDenied(t *testing.T, k client.Client, user string) {
	t.Helper()
	await(t, user+" may not", func() error {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Namespace: "default", Verb: "patch", Group: "example.com", Resource: "widgets", Subresource: "status",
			},
		}}
		if err := k.Create(t.Context(), review); err != nil {
			return err
		}
		if review.Status.Allowed {
			return errors.New(review.Status.Reason)
		}
		return nil
	})
}

// awaitWarning waits for the Event about a stage that cannot be played.
func awaitWarning(t *testing.T, k client.Client, about, text string) {
	t.Helper()
	await(t, about+" has an Event about the stage", func() error {
		var events corev1.EventList
		if err := k.List(t.Context(), &events); err != nil {
			return err
		}
		var seen []string
		for _, e := range events.Items {
			if e.InvolvedObject.Name == about && e.Reason == "StageFailed" {
				if strings.Contains(e.Message, text) {
					return nil
				}
				seen = append(seen, e.Message)
			}
		}
		return fmt.Errorf("no event with %q: %q", text, seen)
	})
}

// TestStagesServedLive: new, changed and deleted stages apply at once to existing objects, and an invalid one
// does not affect the others.
func TestStagesServedLive(t *testing.T) {
	k := stageCluster(t)
	makeWidget(t, k, "old", "spec: {go: 1}")
	s := makeStage(t, k, "up", `
  selector: {matchExpressions: [{key: .status.phase, operator: DoesNotExist}]}
  next: {statusTemplate: "phase: Up"}`)
	awaitField(t, k, "old", "status.phase", "Up")
	awaitReady(t, k, s, "True", "")

	bad := makeStage(t, k, "bad", `
  selector: {}
  next: {statusTemplate: "phase: {{ nothing }}"}`)
	awaitReady(t, k, bad, "False", `spec.next.statusTemplate: template:1: function "nothing" not defined`)
	makeWidget(t, k, "new", "")
	awaitField(t, k, "new", "status.phase", "Up")
	// After a correction, it applies.
	await(t, "the bad one is repaired", func() error {
		u, err := read(t.Context(), k, bad.GroupVersionKind(), "", "bad")
		if err != nil {
			return err
		}
		_ = unstructured.SetNestedField(u.Object, "more: yes", "spec", "next", "statusTemplate")
		return k.Update(t.Context(), u)
	})
	awaitReady(t, k, bad, "True", "")
	awaitField(t, k, "old", "status.more", "true")

	// A built-in stage of the engine cannot be replaced.
	taken := create(t, k, "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: Stage\nmetadata: {name: pod-ready}\nspec: {resourceRef: {kind: Pod}, selector: {}, next: {delete: true}}")
	awaitReady(t, k, taken, "False", "metadata.name: another stage has this name")
	// A stage without a selector applies to no object, and an Event says so.
	awaitReady(t, k, makeStage(t, k, "none", "  next: {delete: true}"), "True", "spec.selector: a stage without a selector matches nothing")

	// A deleted stage is not played on new objects.
	if err := k.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	mark := makeStage(t, k, "mark", `
  selector: {matchExpressions: [{key: .status.marked, operator: DoesNotExist}]}
  weight: 1
  next: {statusTemplate: "{marked: yes, more: yes}"}`)
	awaitReady(t, k, mark, "True", "")
	makeWidget(t, k, "last", "")
	if got := awaitField(t, k, "last", "status.marked", "true"); field(got, "status.phase") != "" {
		t.Error("a stage that is gone is played")
	}
}

// TestEveryEffect plays a stage with every kind of step on a custom resource.
func TestEveryEffect(t *testing.T) {
	k := stageCluster(t)
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: "carol"}},
	}
	binding.Name = "carol"
	if err := k.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	makeStage(t, k, "all", `
  selector: {matchExpressions: [{key: .status.done, operator: DoesNotExist}, {cel: {expression: "self.spec.go == 1"}}]}
  steps:
  - event: {type: Normal, reason: Began, message: so it goes}
    finalizers: {add: [{value: example.com/a}, {value: example.com/b}]}
  - patch: {template: "metadata: {labels: {a: b}}"}
  - patch: {type: json, root: spec, template: '[{"op": "add", "path": "/size", "value": 7}]'}
  - patch: {subresource: scale, root: spec, template: "replicas: 3"}
  - patch: {subresource: status, root: status, template: "size: {{ .spec.size }}", impersonation: {username: carol}}
  - finalizers: {remove: [{value: example.com/a}]}
  - apply:
      template: |
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: {{ .metadata.name }}-made}
        data: {size: {{ .status.size | Quote }}}
  - apply:
      type: merge
      template: "{apiVersion: v1, kind: ConfigMap, metadata: {name: merged}, data: {a: b}}"
  - patch: {subresource: status, root: status, template: "done: yes"}`)
	makeStage(t, k, "end", `
  selector: {matchLabels: {a: b}, matchExpressions: [{key: .spec.end, operator: Exists}]}
  next: {finalizers: {empty: true}, delete: true}`)
	makeWidget(t, k, "w", "spec: {go: 1}")
	w := awaitField(t, k, "w", "status.done", "true")
	if got := fmt.Sprint(w.GetFinalizers(), w.GetLabels(), field(w, "spec.size"), field(w, "spec.replicas"), field(w, "status.size")); got != "[example.com/b] map[a:b]737" {
		t.Errorf("got %s", got)
	}
	carols := false
	for _, f := range w.GetManagedFields() {
		carols = carols || f.Subresource == "status"
	}
	if !carols {
		t.Error("the status was not written")
	}
	for name, want := range map[string]string{"w-made": "map[size:7]", "merged": "map[a:b]"} {
		var cm corev1.ConfigMap
		if err := k.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, &cm); err != nil || fmt.Sprint(cm.Data) != want {
			t.Errorf("%s: %v %v", name, cm.Data, err)
		}
	}
	// A user without permission stops the stage in the middle, and it continues there once the permission is
	// granted.
	binding.ResourceVersion = ""
	if err := k.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	awaitDenied(t, k, "carol")
	makeWidget(t, k, "v", "spec: {go: 1}")
	awaitWarning(t, k, "v", `User "carol" cannot patch resource "widgets/status"`)
	if v := awaitField(t, k, "v", "spec.replicas", "3"); field(v, "status.done") != "" {
		t.Error("a step was left out")
	}
	again := binding.DeepCopy()
	again.ResourceVersion, again.UID = "", ""
	if err := k.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	awaitField(t, k, "v", "status.done", "true")

	w = awaitField(t, k, "w", "status.done", "true")
	_ = unstructured.SetNestedField(w.Object, "now", "spec", "end")
	if err := k.Update(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	await(t, "w is gone", func() error {
		if _, err := read(t.Context(), k, widgetKind, "default", "w"); !apierrors.IsNotFound(err) {
			return errors.Join(err, errors.New("still there"))
		}
		return nil
	})
}

// TestInvalidStages: an Event on the object reports a stage that cannot be played; other objects are not
// affected.
func TestInvalidStages(t *testing.T) {
	k := stageCluster(t)
	makeStage(t, k, "works", `
  selector: {matchExpressions: [{key: .spec.do, operator: In, values: [works]}, {key: .status.phase, operator: DoesNotExist}]}
  next: {statusTemplate: "phase: Up"}`)
	troubles := map[string]struct{ spec, want string }{
		"template":  {`next: {statusTemplate: '{{ fail "as it was meant to" }}'}`, "as it was meant to"},
		"endless":   {`next: {statusTemplate: '{{ range 1000000000000 }}{{ end }}'}`, "the template does too much"},
		"utf8":      {`next: {statusTemplate: 'a: {{ "gIA=" | b64dec }}'}`, "does not render YAML"},
		"rejected":  {`next: {patches: [{root: spec, template: "size: 11"}]}`, "spec.size"},
		"json":      {`next: {patches: [{root: spec, type: json, template: '[{"op": "add", "path": "/size", "value": 11}]'}]}`, "spec.size"},
		"elsewhere": {`next: {patches: [{subresource: nowhere, template: "a: b"}]}`, "not found: the object does not exist, or Widget.example.com/v1 has no subresource nowhere"},
		"huge":      {`next: {patches: [{root: metadata, template: 'annotations: {big: "{{ repeat 300000 "x" }}"}'}]}`, "metadata.annotations"},
		"schema":    {"steps: [{apply: {template: '{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {replica: 0}}'}}]", "field not declared in schema"},
		"no-kind":   {"steps: [{apply: {template: '{apiVersion: example.com/v1, kind: Nothing, metadata: {name: x}}'}}]", `no matches for kind "Nothing"`},
		"delay":     {"delay: {durationFrom: {jq: {expression: '.spec.wait'}}}\n  next: {delete: true}", `"soon" is neither`},
	}
	for name, c := range troubles {
		makeStage(t, k, name, "  selector: {matchExpressions: [{key: .spec.do, operator: In, values: ["+name+"]}]}\n  "+c.spec)
		makeWidget(t, k, name, "spec: {wait: soon, do: "+name+"}")
	}
	// A node is cluster-scoped, so a ConfigMap for it has no namespace.
	create(t, k, `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: in-none}
spec:
  resourceRef: {kind: Node}
  selector: {matchLabels: {do: in-none}}
  steps: [{apply: {template: '{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}'}}]`)
	create(t, k, "{apiVersion: v1, kind: Node, metadata: {name: in-none, labels: {do: in-none}, annotations: {kwok.x-k8s.io/node: fake}}}")
	troubles["in-none"] = struct{ spec, want string }{"", "metadata.namespace: ConfigMap x needs a namespace"}
	makeWidget(t, k, "fine", "spec: {do: works}")
	awaitField(t, k, "fine", "status.phase", "Up")
	for name, c := range troubles {
		awaitWarning(t, k, name, c.want)
	}
}

// TestKindsComeAndGo: a kind's definition is deleted and created again with another scope, and with another
// resource name; stages may refer to two versions of a kind. Events on the stages report a kind that does not
// exist.
func TestKindsComeAndGo(t *testing.T) {
	k, config := configuredStageCluster(t)
	var stages []*unstructured.Unstructured
	served := func(status, message string) {
		t.Helper()
		for i, s := range stages {
			awaitReady(t, k, s, status, strings.ReplaceAll(message, "VERSION", fmt.Sprint("v", i+1)))
		}
	}
	const none = "spec.resourceRef: the API serves no kind Thing.example.org/VERSION; the stage is played as soon as it does"
	for i, version := range []string{"v1", "v2"} {
		stages = append(stages, create(t, k, fmt.Sprintf(`
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: thing-%s}
spec:
  resourceRef: {apiGroup: example.org/%[1]s, kind: Thing}
  selector: {matchExpressions: [{key: .played%[2]d, operator: DoesNotExist}]}
  next: {patches: [{template: 'played%[2]d: true'}]}`, version, i)))
	}
	served("False", none)
	define := func(plural, scope string) {
		t.Helper()
		version := func(name string, stored bool) string {
			return fmt.Sprintf("{name: %s, served: true, storage: %t, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}", name, stored)
		}
		crd := create(t, k, fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.example.org}
spec: {group: example.org, scope: %[2]s, names: {plural: %[1]s, kind: Thing}, versions: [%[3]s, %[4]s]}`, plural, scope, version("v1", true), version("v2", false)))
		gvk := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Thing"}
		for n := range 3 {
			namespace := ""
			thing := &unstructured.Unstructured{}
			thing.SetGroupVersionKind(gvk)
			thing.SetName(fmt.Sprint("t", n))
			if scope == "Namespaced" {
				namespace = "default"
				thing.SetNamespace(namespace)
			}
			await(t, "a thing is made", func() error {
				again, err := client.New(config, client.Options{}) // it has another mapping now
				if err != nil {
					return err
				}
				return again.Create(t.Context(), thing.DeepCopy())
			})
			await(t, "it is played by both stages", func() error {
				again, err := client.New(config, client.Options{})
				if err != nil {
					return err
				}
				u, err := read(t.Context(), again, gvk, namespace, thing.GetName())
				if err == nil && (field(u, "played0") != "true" || field(u, "played1") != "true") {
					err = fmt.Errorf("%s %s: %v", plural, scope, u.Object)
				}
				return err
			})
		}
		served("True", "")
		if err := k.Delete(t.Context(), crd); err != nil {
			t.Fatal(err)
		}
		await(t, "the definition is gone", func() error {
			if _, err := read(t.Context(), k, crd.GroupVersionKind(), "", crd.GetName()); !apierrors.IsNotFound(err) {
				return errors.Join(err, errors.New("still there"))
			}
			return nil
		})
	}
	define("things", "Cluster")
	define("things", "Namespaced")
	define("thingz", "Namespaced")
	served("False", none)
}
