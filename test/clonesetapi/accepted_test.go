package clonesetapi

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestDefaults checks the defaults of an object with only a selector and a template.
func TestDefaults(t *testing.T) {
	for text, want := range map[string]string{
		alpha: `{replicas: 1, revisionHistoryLimit: 10, scaleStrategy: {disablePVCReuse: false},
			updateStrategy: {type: ReCreate, partition: 0, maxUnavailable: 20%, maxSurge: 0}}`,
		beta: `{replicas: 1, revisionHistoryLimit: 10, scaleStrategy: {enablePVCReuse: false, excludePreparingDelete: false},
			updateStrategy: {type: RollingUpdate, rollingUpdate: {podUpdatePolicy: ReCreate, partition: 0, maxUnavailable: 20%, maxSurge: 0}}}`,
	} {
		same(t, with(text, want).Object["spec"], create(t, parse(text)).Object["spec"])
	}
}

// TestAccepted checks that valid objects are accepted and returned unchanged, with the defaults added.
func TestAccepted(t *testing.T) {
	for name, u := range map[string]*unstructured.Unstructured{
		"v1alpha1: OnDelete, which OpenKruise's webhook rejects": with(alpha, "updateStrategy: {type: OnDelete}"),
		"v1beta1: OnDelete": with(beta, "updateStrategy: {type: OnDelete}"),
		"v1beta1: without downtime, which OpenKruise rejects": with(beta, "updateStrategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}"),
		"v1alpha1: without downtime":                          with(alpha, "updateStrategy: {maxUnavailable: 0%, maxSurge: 150%}"),
		"OnDelete needs no limits":                            with(alpha, "updateStrategy: {type: OnDelete, maxUnavailable: 0}"),
		"replicas of zero":                                    with(beta, "replicas: 0"),
		"no revisions kept":                                   with(beta, "revisionHistoryLimit: 0"),
		"no deadline":                                         with(alpha, "{progressDeadlineSeconds: 2147483647, minReadySeconds: 2147483647}"),
		"a deadline":                                          with(alpha, "{progressDeadlineSeconds: 11, minReadySeconds: 10}"),
		"all of 100%":                                         with(alpha, "updateStrategy: {partition: 100%, maxUnavailable: 100%, maxSurge: 100%}"),
		"selector by expressions":                             with(beta, "selector: {matchLabels: {app: web}, matchExpressions: [{key: app, operator: In, values: [web, db]}, {key: tier, operator: NotIn, values: [x]}, {key: app, operator: Exists}, {key: none, operator: DoesNotExist}]}"),
		"hooks":                                               with(beta, "lifecycle: {preDelete: {labelsHandler: {hold/me: 'true'}, markPodNotReady: true}, inPlaceUpdate: {finalizersHandler: [example.io/a, example.io/b]}, preNormal: {}}"),
		"priorities, scatter, grace, pods to delete":          with(alpha, "{scaleStrategy: {podsToDelete: [web-a, web-b], maxUnavailable: 30%}, updateStrategy: {type: InPlaceIfPossible, priorityStrategy: {weightPriority: [{weight: 50, matchSelector: {matchLabels: {a: b}}}]}, scatterStrategy: [{key: a, value: b}, {key: a, value: c}], inPlaceUpdateStrategy: {gracePeriodSeconds: 10}}}"),
		"fields of the pod that the schema does not name":     with(alpha, `template: {spec: {hostNetwork: true, securityContext: {runAsUser: 5}, tolerations: [{operator: Exists}], containers: [{name: a, image: "a:1", resources: {limits: {cpu: 0.5, memory: 1Gi}}, livenessProbe: {httpGet: {port: web}}, novelty: {x: 1}}]}}`),
		"volumes, claims, mounts":                             with(beta, `{volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}], template: {spec: {restartPolicy: Always, volumes: [{name: tmp, emptyDir: {}}], initContainers: [{name: i, image: i}], containers: [{name: a, image: "a:1", volumeMounts: [{name: data, mountPath: /d}, {name: tmp, mountPath: /t}], ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]}]}}}`),
		"annotation keys that the API accepts":                with(alpha, "template: {metadata: {annotations: {Upper.Example/Key: b}}}"),
		"v1alpha1: a field that OpenKruise drops":             with(alpha, "updateStrategy: {inPlaceUpdateStrategy: {imagePreDownloadTimeoutSeconds: 60}}"),
	} {
		t.Run(name, func(t *testing.T) {
			want := u.DeepCopy()
			made := create(t, u)
			got := made.DeepCopy()
			merge(got.Object, map[string]any{"spec": want.Object["spec"]})
			same(t, made.Object["spec"], got.Object["spec"])
			// The other version contains it too and returns it.
			for _, version := range []string{"v1alpha1", "v1beta1"} {
				read(t, v1alpha1.GroupResource().WithVersion(version), made.GetName())
			}
			same(t, made.Object["spec"], read(t, resource(made), made.GetName()).Object["spec"])
		})
	}
}

// TestApplyByName checks, in both versions, that two field managers of a template each own their container,
// variable, port and mount.
func TestApplyByName(t *testing.T) {
	for _, text := range []string{alpha, beta} {
		u := with(text, `template: {spec: {containers: [{name: a, image: "a:1", env: [{name: A, value: "1"}], ports: [{containerPort: 80}]}]}}`)
		u.SetName("apply-" + u.GroupVersionKind().Version)
		apply(t, u, "owner")
		sidecar := parse(map[bool]string{true: beta, false: alpha}[text == alpha])
		sidecar.Object["spec"] = map[string]any{}
		sidecar = with(sidecar, `template: {spec: {volumes: [{name: v, emptyDir: {}}], containers: [{name: side, image: "s:1"}, {name: a, env: [{name: B, value: "2"}], volumeMounts: [{name: v, mountPath: /v}]}]}}`)
		sidecar.SetName(u.GetName())
		// The applied part alone is incomplete: image and selector are required of the result only.
		both := apply(t, sidecar, "injector")
		if a := container(t, both, "a"); a["image"] != "a:1" || len(a["env"].([]any)) != 2 || len(a["volumeMounts"].([]any)) != 1 || len(a["ports"].([]any)) != 1 {
			t.Errorf("%s\n%v", u.GetAPIVersion(), a)
		}
		set(u, "a:2", "spec", "template", "spec", "containers", "0", "image")
		after := apply(t, u, "owner")
		if a := container(t, after, "a"); a["image"] != "a:2" || len(a["env"].([]any)) != 2 {
			t.Errorf("%s after an update\n%v", u.GetAPIVersion(), a)
		}
		if side := container(t, after, "side"); side["image"] != "s:1" {
			t.Errorf("%v", side)
		}
	}
}

func container(t *testing.T, u *unstructured.Unstructured, name string) map[string]any {
	t.Helper()
	for _, c := range get(t, u, "spec", "template", "spec", "containers").([]any) {
		if c := c.(map[string]any); c["name"] == name {
			return c
		}
	}
	t.Fatalf("no container %s in %v", name, u.Object)
	return nil
}
