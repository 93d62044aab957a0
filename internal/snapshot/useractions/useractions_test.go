package useractions_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/rehearse/v1alpha1"
	"github.com/rehearse-k8s/rehearse/internal/snapshot"
	"github.com/rehearse-k8s/rehearse/internal/snapshot/transfer"
	"github.com/rehearse-k8s/rehearse/internal/snapshot/useractions"
	"github.com/rehearse-k8s/rehearse/scenario"
)

const header = "apiVersion: rehearse-k8s.github.io/v1alpha1\nkind: Snapshot\nspec: {recording: true}\n"

// find reads objects and changes; each change begins with a line "AFTER METHOD RESOURCE NAMESPACE/NAME MANAGER".
func find(t *testing.T, objects string, changes ...string) *useractions.Result {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, doc := range strings.Split(objects, "---\n") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		all = append(all, &unstructured.Unstructured{Object: decode(t, doc)})
	}
	var list []snapshot.Change
	for i, text := range changes {
		line, body, _ := strings.Cut(text, "\n")
		list = append(list, change(t, i+1, strings.Fields(line), body))
	}
	r, err := useractions.Find(all, list, useractions.DefaultManagers, transfer.IsBuiltIn)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	out, err := snapshot.Decode([]byte(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return out
}

// texts describes actions in one line each.
func texts(r *useractions.Result) []string {
	var out []string
	for _, a := range r.Actions {
		text := fmt.Sprintf("%s %s %s", a.Verb, a.Resource, strings.TrimPrefix(a.Object.String(), "/"))
		if a.Subresource != "" {
			text += " " + a.Subresource
		}
		if a.Verb == useractions.Patch {
			data, _ := yaml.Marshal(a.Content)
			text += " " + string(a.PatchType)[len("application/"):] + " " + strings.Join(strings.Fields(string(data)), " ")
		}
		if a.Propagation != "" {
			text += " " + string(a.Propagation)
		}
		out = append(out, text)
	}
	return out
}

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop, uid: u1, generation: 3, creationTimestamp: "2026-01-01T00:00:00Z", annotations: {deployment.kubernetes.io/revision: "2"}, finalizers: [x/y]}
spec: {replicas: 1}
status: {replicas: 1}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-1, namespace: shop, uid: u2, ownerReferences: [{kind: Deployment, name: web, uid: u1, controller: true}]}
`

// TestActions checks which changes are those of a user.
func TestActions(t *testing.T) {
	for name, c := range map[string]struct {
		changes []string
		want    []string
		leftOut string // a part of a sentence
	}{
		"a user's patch": {
			[]string{"1s patch apps/v1/deployments shop/web kubectl-edit\nmetadata: {generation: 4, resourceVersion: '7'}\nspec: {replicas: 3}"},
			[]string{"patch deployments.apps shop/web strategic-merge-patch+json spec: replicas: 3"}, "",
		},
		"what apply remembers is no action of its own": {
			[]string{"1s patch apps/v1/deployments shop/web kubectl-client-side-apply\nmetadata: {generation: 4, annotations: {kubectl.kubernetes.io/last-applied-configuration: x}}"},
			nil, "",
		},
		"a controller's patch": {
			[]string{"1s patch apps/v1/deployments shop/web kube-controller-manager\nstatus: {replicas: 3}", "1s patch apps/v1/deployments shop/web my-operator\nspec: {replicas: 3}"}, nil, "",
		},
		"a status that a user writes": {
			[]string{"1s patch apps/v1/deployments shop/web kubectl-patch\nstatus: {replicas: 3}"},
			[]string{"patch deployments.apps shop/web status strategic-merge-patch+json status: replicas: 3"}, "",
		},
		"a status in the same version belongs to a controller": {
			[]string{"1s patch apps/v1/deployments shop/web kubectl-patch\nstatus: {replicas: 3}\nspec: {replicas: 3}"},
			[]string{"patch deployments.apps shop/web strategic-merge-patch+json spec: replicas: 3"}, "",
		},
		"without managers": {
			[]string{"1s patch apps/v1/deployments shop/web\nspec: {replicas: 3}", "1s patch apps/v1/deployments shop/web\nstatus: {replicas: 3}"},
			[]string{"patch deployments.apps shop/web strategic-merge-patch+json spec: replicas: 3"}, "",
		},
		"a dependent": {
			[]string{
				"1s create v1/pods shop/web-1-a kube-controller-manager\napiVersion: v1\nkind: Pod\nmetadata: {name: web-1-a, namespace: shop, ownerReferences: [{kind: ReplicaSet, name: web-1, uid: u2}]}",
				"1s patch v1/pods shop/web-1-a kubectl-label\nmetadata: {labels: {a: b}}",
				"2s delete v1/pods shop/web-1-a",
				"2s delete apps/v1/replicasets shop/web-1",
			}, nil, "changes of objects with an owner: their names differ in another run (1, such as Pod shop/web-1-a",
		},
		"what an operator makes without an owner": {
			[]string{
				"1s create v1/configmaps shop/made my-operator\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: made, namespace: shop}",
				"2s delete v1/configmaps shop/made",
			}, nil, "",
		},
		"create, and delete at once": {
			[]string{
				"1s create v1/configmaps shop/c kubectl-create\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop, uid: u9}",
				"2s delete v1/configmaps shop/c",
			},
			[]string{"create configmaps shop/c", "delete configmaps shop/c Background"}, "",
		},
		"a delete counts once, when it begins": {
			[]string{
				"1s patch apps/v1/deployments shop/web kubectl-edit\nmetadata: {deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 0, finalizers: [foregroundDeletion]}",
				"2s create v1/configmaps shop/c kubectl-create\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}",
				"3s delete apps/v1/deployments shop/web",
			},
			[]string{"delete deployments.apps shop/web Foreground", "create configmaps shop/c"}, "",
		},
		"a namespace takes its objects along": {
			[]string{
				"0s create v1/namespaces /shop kubectl-create\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}",
				"1s patch v1/namespaces /shop kubectl-create\nmetadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}\nstatus: {phase: Terminating}",
				"2s delete apps/v1/deployments shop/web",
				"3s delete v1/namespaces /shop",
			},
			[]string{"create namespaces shop", "delete namespaces shop Background"}, "",
		},
		"a Job that its TTL removes": {
			[]string{
				"1s create batch/v1/jobs shop/j kubectl-create\napiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: shop}\nspec: {ttlSecondsAfterFinished: 5}",
				"9s delete batch/v1/jobs shop/j",
			},
			[]string{"create jobs.batch shop/j"}, "",
		},
		"a resize of a pod": {
			[]string{
				"1s create v1/pods shop/p kubectl-run\napiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}",
				"2s patch v1/pods shop/p kubectl-patch\nspec: {containers: [{name: a, resources: {requests: {cpu: 2}}}]}",
			},
			[]string{"create pods shop/p", "patch pods shop/p resize strategic-merge-patch+json spec: containers: - name: a resources: requests: cpu: 2"}, "",
		},
		"changes of what is left out": {
			[]string{
				"1s create admissionregistration.k8s.io/v1/validatingwebhookconfigurations /w helm\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: w}",
				"2s patch admissionregistration.k8s.io/v1/validatingwebhookconfigurations /w helm\nwebhooks: []",
				"3s delete admissionregistration.k8s.io/v1/validatingwebhookconfigurations /w",
			}, nil, "changes of objects that the scenario does not have",
		},
		"a webhook has no server": {
			[]string{"1s create admissionregistration.k8s.io/v1/validatingwebhookconfigurations /w helm\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: w}"},
			nil, "webhooks and API services, whose servers do not run in the scenario (1, such as ValidatingWebhookConfiguration w",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := find(t, web, c.changes...)
			if got := texts(r); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
			if left := strings.Join(r.LeftOut, "\n"); (left == "") != (c.leftOut == "") || !strings.Contains(left, c.leftOut) {
				t.Errorf("left out %q, want %q", left, c.leftOut)
			}
		})
	}
}

const shop = web + `---
apiVersion: example.com/v1
kind: Store
metadata: {name: main, namespace: shop}
spec: {size: 2}
status: {ready: true}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: stores.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Store, plural: stores}
  conversion: {strategy: Webhook}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: v1
kind: Node
metadata: {name: big}
spec: {taints: [{key: gpu, effect: NoSchedule}, {key: node.kubernetes.io/not-ready, effect: NoSchedule}]}
status: {capacity: {cpu: 4}, allocatable: {cpu: 3}, phase: Running}
`

// TestScenario checks the scenario of a recording, and that it can be read.
func TestScenario(t *testing.T) {
	r := find(t, shop,
		"1s patch example.com/v1/stores shop/main kubectl-edit\nspec: {size: 3}",
		"1.1s patch v1/nodes /big kubectl-cordon\nspec: {unschedulable: true}",
		"5s create batch/v1/jobs shop/j kubectl-create\napiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: shop}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}",
		"5.2s delete example.com/v1/stores shop/main",
	)
	s, err := r.Scenario("shop", "A shop.", nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := useractions.Encode(s, append([]string{"From shop.yaml."}, r.LeftOut...))
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "shop.scenario.yaml")
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(golden, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != string(data) {
		t.Errorf("%s differs (%v), UPDATE_GOLDEN=1 writes it:\n%s", golden, err, data)
	}
	if _, err := scenario.Read(golden, data, nil); err != nil {
		t.Error(err)
	}
}

// TestScenarioOfBase keeps what the base says about the program, and moves its files.
func TestScenarioOfBase(t *testing.T) {
	base := &v1alpha1.Scenario{Spec: v1alpha1.ScenarioSpec{
		Cluster: v1alpha1.ScenarioCluster{Stages: []string{"s.yaml", "builtin:pod-fast"}, Objects: []v1alpha1.Manifest{{File: "crds/a.yaml"}}},
		Clients: []v1alpha1.Client{{Name: "job", Builtin: "upstream-job"}, {Name: "x", Dir: "/opt"}},
		Steps:   []v1alpha1.Step{{Settle: &v1alpha1.Settle{}}},
	}}
	if err := useractions.MoveFiles(base, "scenarios", "out/deep"); err != nil {
		t.Fatal(err)
	}
	s, err := find(t, "", "1s create batch/v1/jobs shop/j kubectl-create\napiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: shop}").Scenario("n", "d", base)
	if err != nil {
		t.Fatal(err)
	}
	c := s.Spec.Cluster
	if !slices.Equal(c.Stages, []string{"../../scenarios/s.yaml", "builtin:pod-fast"}) || c.Objects[0].File != "../../scenarios/crds/a.yaml" || s.Spec.Clients[1].Dir != "/opt" {
		t.Errorf("files %+v %+v", c, s.Spec.Clients)
	}
	if !slices.Equal(c.Controllers, []string{"stage", "scheduler", "garbage-collector-controller"}) {
		t.Errorf("controllers %q: the one under test must not run twice", c.Controllers)
	}
	if len(s.Spec.Steps) != 2 || s.Spec.Steps[1].Create == nil || len(c.Objects) != 2 || !strings.Contains(string(c.Objects[1].Object), `"Namespace"`) {
		t.Errorf("steps %+v, objects %+v", s.Spec.Steps, c.Objects)
	}
}

// TestCreateAgain waits before an object is created again, because its delete may take time.
func TestCreateAgain(t *testing.T) {
	const object = " v1/configmaps default/c kubectl-create\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}"
	s, err := find(t, "", "1s create"+object, "1.1s delete v1/configmaps default/c", "1.2s create"+object).Scenario("n", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if steps := s.Spec.Steps; len(steps) != 5 || steps[3].Settle == nil || steps[4].Create == nil {
		t.Errorf("steps %+v", steps)
	}
}

// TestManyNodes keeps the nodes that users changed, and the first others.
func TestManyNodes(t *testing.T) {
	var nodes strings.Builder
	for i := range 30 {
		fmt.Fprintf(&nodes, "---\napiVersion: v1\nkind: Node\nmetadata: {name: n%02d}\n", i)
	}
	r := find(t, nodes.String(), "1s patch v1/nodes /n29 kubectl-cordon\nspec: {unschedulable: true}")
	var names []string
	for _, o := range r.Objects {
		names = append(names, o.GetName())
	}
	if len(names) != 10 || !slices.Contains(names, "n29") || !slices.Contains(names, "n08") || slices.Contains(names, "n09") {
		t.Errorf("nodes %q", names)
	}
	if len(r.LeftOut) != 1 || !strings.Contains(r.LeftOut[0], "(20, such as Node n") {
		t.Errorf("left out %q", r.LeftOut)
	}
}

// FuzzFind checks that no recording makes Find panic, and that each scenario can be encoded.
func FuzzFind(f *testing.F) {
	f.Add(header + "---" + shop + "---\napiVersion: action.kwok.x-k8s.io/v1alpha1\nkind: ResourcePatch\nresource: {version: v1, resource: nodes}\ntarget: {name: big}\nmethod: patch\ndurationNanosecond: 1\ntemplate: {spec: {taints: null}, metadata: {finalizers: 3, annotations: [], deletionTimestamp: 1}}\n")
	f.Add("apiVersion: v1\nkind: Node\nmetadata: {name: a, annotations: {x: y}}\nspec: {taints: [1, {}]}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: []\n")
	f.Fuzz(func(t *testing.T, text string) {
		var objects []*unstructured.Unstructured
		var changes []snapshot.Change
		r, err := snapshot.NewReader(strings.NewReader(text))
		if err != nil {
			return
		}
		for {
			o, err := r.Next()
			if err != nil {
				break
			}
			objects = append(objects, o)
		}
		for {
			c, err := r.NextChange()
			if err != nil {
				break
			}
			changes = append(changes, c)
		}
		result, err := useractions.Find(objects, changes, []string{"*"}, transfer.IsBuiltIn)
		if err != nil {
			t.Fatal(err)
		}
		s, err := result.Scenario("s", "", nil)
		if err == nil {
			_, err = useractions.Encode(s, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
