package clonesetapi

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// bad contains what both versions reject with the same message: YAML that is merged into the spec, the field
// that the message names, and the message.
var bad = map[string]struct{ spec, field, reason string }{
	"negative replicas":        {"replicas: -1", "spec.replicas", "greater than or equal to 0"},
	"replicas beyond int32":    {"replicas: 3000000000", "spec.replicas", "less than or equal to 2147483647"},
	"negative history":         {"revisionHistoryLimit: -1", "spec.revisionHistoryLimit", "greater than or equal to 0"},
	"negative minReadySeconds": {"minReadySeconds: -1", "spec.minReadySeconds", "greater than or equal to 0"},
	"negative deadline":        {"progressDeadlineSeconds: -1", "spec.progressDeadlineSeconds", "greater than or equal to 0"},
	"deadline within minReadySeconds": {"{progressDeadlineSeconds: 10, minReadySeconds: 10}",
		"spec.progressDeadlineSeconds", "must be more than minReadySeconds"},
	"deadline of zero": {"progressDeadlineSeconds: 0", "spec.progressDeadlineSeconds", "must be more than minReadySeconds"},

	"no selector":    {"selector: null", "spec.selector", "Required value"},
	"empty selector": {"selector: {matchLabels: null}", "spec.selector", "must not be empty"},
	"selector of another label": {"selector: {matchLabels: {app: db}}",
		"spec.template.metadata.labels", "must match spec.selector.matchLabels"},
	"selector and a template without labels": {"template: {metadata: null}",
		"spec.template.metadata.labels", "must match spec.selector.matchLabels"},
	"selector In of other values": {"selector: {matchExpressions: [{key: app, operator: In, values: [a, b]}]}",
		"spec.template.metadata.labels", "must match spec.selector.matchExpressions"},
	"selector NotIn of the value": {"selector: {matchExpressions: [{key: app, operator: NotIn, values: [web]}]}",
		"spec.template.metadata.labels", "must match spec.selector.matchExpressions"},
	"selector Exists of no label": {"selector: {matchExpressions: [{key: tier, operator: Exists}]}",
		"spec.template.metadata.labels", "must match spec.selector.matchExpressions"},
	"selector DoesNotExist of a label": {"selector: {matchExpressions: [{key: app, operator: DoesNotExist}]}",
		"spec.template.metadata.labels", "must match spec.selector.matchExpressions"},
	"selector with an unknown operator": {"selector: {matchExpressions: [{key: app, operator: Like, values: [web]}]}",
		"spec.selector.matchExpressions[0].operator", `Unsupported value: "Like"`},
	"selector In of nothing": {"selector: {matchExpressions: [{key: app, operator: In}]}",
		"spec.selector.matchExpressions[0].values", "must have values for In and NotIn"},
	"selector with a value that no label has": {"selector: {matchLabels: {app: 'a b'}}",
		"spec.selector.matchLabels.app", "should match"},

	"no template":           {"template: null", "spec.template", "Required value"},
	"no containers":         {"template: {spec: {containers: []}}", "spec.template.spec.containers", "at least 1"},
	"a container, no name":  {"template: {spec: {containers: [{image: a}]}}", "spec.template.spec.containers[0].name", "Required value"},
	"a container, no image": {"template: {spec: {containers: [{name: a}]}}", "spec.template.spec.containers[0].image", "Required value"},
	"a container of a bad name": {"template: {spec: {containers: [{name: A_b, image: a}]}}",
		"spec.template.spec.containers[0].name", "should match"},
	"two containers of one name": {"template: {spec: {containers: [{name: a, image: a}, {name: a, image: b}]}}",
		"spec.template.spec.containers[1]", "Duplicate value"},
	"init container named as a container": {"template: {spec: {initContainers: [{name: a, image: a}]}}",
		"spec.template.spec.initContainers", "a: a container of the pod has this name already"},
	"argument that is a number": {"template: {spec: {containers: [{name: a, image: a, args: [1]}]}}",
		"spec.template.spec.containers[0].args[0]", "must be of type string"},
	"port beyond all ports": {"template: {spec: {containers: [{name: a, image: a, ports: [{containerPort: 70000}]}]}}",
		"spec.template.spec.containers[0].ports[0].containerPort", "less than or equal to 65535"},
	"mount of no volume": {"template: {spec: {containers: [{name: a, image: a, volumeMounts: [{name: data, mountPath: /d}]}]}}",
		"spec.template.spec.containers", "a mounts data, which is in neither"},
	"two mounts in one place": {"template: {spec: {volumes: [{name: v}], containers: [{name: a, image: a, volumeMounts: [{name: v, mountPath: /d}, {name: v, mountPath: /d}]}]}}",
		"spec.template.spec.containers[0].volumeMounts[1]", "Duplicate value"},
	"two volumes of one name":  {"template: {spec: {volumes: [{name: v}, {name: v}]}}", "spec.template.spec.volumes[1]", "Duplicate value"},
	"pods that run once":       {"template: {spec: {restartPolicy: Never}}", "spec.template.spec.restartPolicy", `supported values: "Always"`},
	"pods with a deadline":     {"template: {spec: {activeDeadlineSeconds: 5}}", "spec.template.spec.activeDeadlineSeconds", "must not be set"},
	"ephemeral containers":     {"template: {spec: {ephemeralContainers: [{name: b}]}}", "spec.template.spec.ephemeralContainers", "must not be set"},
	"a label of a bad value":   {"template: {metadata: {labels: {tier: a/b}}}", "spec.template.metadata.labels.tier", "should match"},
	"a label of a bad key":     {"template: {metadata: {labels: {'a b': c}}}", "spec.template.metadata.labels: a b", "not a key that the API takes"},
	"annotation of a bad key":  {"template: {metadata: {annotations: {'a b': c}}}", "spec.template.metadata.annotations: a b", "not a key that the API takes"},
	"annotation with a number": {"template: {metadata: {annotations: {a: 1}}}", "spec.template.metadata.annotations.a", "must be of type string"},

	"an amount that is invalid": {"template: {spec: {containers: [{name: a, image: a, resources: {limits: {cpu: 1}, requests: {cpu: 500m, memory: much}}}]}}",
		"spec.template.spec.containers[a].resources.requests.memory: much", "not an amount"},
	"an amount of an init container": {"template: {spec: {initContainers: [{name: i, image: a, resources: {limits: {cpu: 1 core}}}]}}",
		"spec.template.spec.containers[i].resources.limits.cpu: 1 core", "not an amount"},
	"claim of an invalid size": {"volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: big}}}}]",
		"spec.volumeClaimTemplates[d].spec.resources.requests.storage: big", "not an amount"},

	"two claims of one name": {"volumeClaimTemplates: [&c {metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}, *c]",
		"spec.volumeClaimTemplates", "a metadata.name of its own"},
	"claim without a size": {"volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {}}}}]",
		"spec.volumeClaimTemplates[0].spec.resources.requests.storage", "must say how much it wants"},
	"claim of an unknown mode": {"volumeClaimTemplates: [{metadata: {name: d}, spec: {accessModes: [Any], resources: {requests: {storage: 1Gi}}}}]",
		"spec.volumeClaimTemplates[0].spec.accessModes[0]", `Unsupported value: "Any"`},

	"pod to delete twice":       {"scaleStrategy: {podsToDelete: [a, b, a]}", "spec.scaleStrategy.podsToDelete[2]", "Duplicate value"},
	"pod to delete, no name":    {"scaleStrategy: {podsToDelete: ['']}", "spec.scaleStrategy.podsToDelete[0]", "at least 1 chars"},
	"scale: a float percentage": {"scaleStrategy: {maxUnavailable: 12.5%}", "spec.scaleStrategy.maxUnavailable", "whole percentage from 0% to 100%"},
	"scale: a word":             {"scaleStrategy: {maxUnavailable: some}", "spec.scaleStrategy.maxUnavailable", `"some": must be a number such as 3`},
	"scale: a negative number":  {"scaleStrategy: {maxUnavailable: -1}", "spec.scaleStrategy.maxUnavailable", "greater than or equal to 0"},

	"hook of a finalizer that no pod can have": {"lifecycle: {preDelete: {finalizersHandler: [hold]}}",
		"spec.lifecycle.preDelete.finalizersHandler[0]", "should match"},
	"hook of a label that no pod can have": {"lifecycle: {preNormal: {labelsHandler: {a: 'b c'}}}",
		"spec.lifecycle.preNormal.labelsHandler.a", "should match"},
	"hook of a label with a key that no pod can have": {"lifecycle: {preNormal: {labelsHandler: {'a b': c}}, preDelete: {labelsHandler: {d: e}}}",
		"spec.lifecycle.preNormal.labelsHandler: a b", "not a key that the API takes"},
	"hook that names a finalizer twice": {"lifecycle: {inPlaceUpdate: {finalizersHandler: [a.io/b, a.io/b]}}",
		"spec.lifecycle.inPlaceUpdate.finalizersHandler[1]", "Duplicate value"},
}

// badUpdate is merged into the part of the spec that has the details of updates.
var badUpdate = map[string]struct{ update, field, reason string }{
	"partition in floats":           {"partition: 12.5%", "partition", `"12.5%": must be a number such as 3, or a whole percentage from 0% to 100%`},
	"partition as text":             {"partition: '5'", "partition", `"5": must be a number such as 3`},
	"negative partition":            {"partition: -1", "partition", "greater than or equal to 0"},
	"negative percentage":           {"partition: -5%", "partition", `"-5%": must be a number such as 3`},
	"more than all":                 {"partition: 101%", "partition", `"101%": must be a number such as 3`},
	"maxUnavailable in floats":      {"maxUnavailable: 12.5%", "maxUnavailable", "whole percentage"},
	"maxUnavailable: a word":        {"maxUnavailable: half", "maxUnavailable", `"half": must be a number such as 3`},
	"negative maxUnavailable":       {"maxUnavailable: -1", "maxUnavailable", "greater than or equal to 0"},
	"maxSurge in floats":            {"maxSurge: 12.5%", "maxSurge", "whole percentage"},
	"negative maxSurge":             {"maxSurge: -1", "maxSurge", "greater than or equal to 0"},
	"maxUnavailable beyond int32":   {"maxUnavailable: 3000000000", "maxUnavailable", "less than or equal to 2147483647"},
	"a number that is invalid":      {"maxUnavailable: 1.5", "maxUnavailable", "must be of type"},
	"neither surge nor unavailable": {"maxUnavailable: 0", "maxUnavailable", "must not be 0 while maxSurge is 0"},
	"the same in per cent":          {"{maxUnavailable: 0%, maxSurge: 0%}", "maxUnavailable", "must not be 0 while maxSurge is 0"},
	"priority by both": {"priorityStrategy: {weightPriority: [{weight: 1, matchSelector: {matchLabels: {a: b}}}], orderPriority: [{orderedKey: c}]}",
		"priorityStrategy.orderPriority", "choose one of the two"},
	"weight beyond 100": {"priorityStrategy: {weightPriority: [{weight: 101, matchSelector: {matchLabels: {a: b}}}]}",
		"priorityStrategy.weightPriority[0].weight", "less than or equal to 100"},
	"negative weight": {"priorityStrategy: {weightPriority: [{weight: -1, matchSelector: {matchLabels: {a: b}}}]}",
		"priorityStrategy.weightPriority[0].weight", "greater than or equal to 0"},
	"weight for all": {"priorityStrategy: {weightPriority: [{weight: 1, matchSelector: {}}]}",
		"priorityStrategy.weightPriority[0].matchSelector", "must not be empty"},
	"order without a key": {"priorityStrategy: {orderPriority: [{orderedKey: ''}]}",
		"priorityStrategy.orderPriority[0].orderedKey", "at least 1 chars"},
	"scatter twice":         {"scatterStrategy: [{key: a, value: b}, {key: a, value: b}]", "scatterStrategy[1]", "Duplicate value"},
	"scatter without a key": {"scatterStrategy: [{key: '', value: b}]", "scatterStrategy[0].key", "at least 1 chars"},
	"negative grace":        {"inPlaceUpdateStrategy: {gracePeriodSeconds: -1}", "inPlaceUpdateStrategy.gracePeriodSeconds", "greater than or equal to 0"},
}

// badWords are rejected differently by the two versions.
var badWords = map[string]struct{ object, spec, field, reason string }{
	"v1alpha1: an unknown type": {alpha, "updateStrategy: {type: Sometimes}", "spec.updateStrategy.type", `Unsupported value: "Sometimes": supported values: "ReCreate", "InPlaceIfPossible", "InPlaceOnly", "OnDelete"`},
	"v1alpha1: v1beta1's type":  {alpha, "updateStrategy: {type: RollingUpdate}", "spec.updateStrategy.type", `Unsupported value: "RollingUpdate"`},
	"v1beta1: v1alpha1's type":  {beta, "updateStrategy: {type: ReCreate}", "spec.updateStrategy.type", `Unsupported value: "ReCreate": supported values: "RollingUpdate", "OnDelete"`},
	"v1beta1: an unknown policy": {beta, "updateStrategy: {rollingUpdate: {podUpdatePolicy: Sometimes}}", "spec.updateStrategy.rollingUpdate.podUpdatePolicy",
		`Unsupported value: "Sometimes": supported values: "ReCreate", "InPlaceIfPossible", "InPlaceOnly"`},
	"v1alpha1: surge in place": {alpha, "updateStrategy: {type: InPlaceOnly, maxSurge: 1}", "spec.updateStrategy.maxSurge", "must be 0 with InPlaceOnly"},
	"v1beta1: surge in place": {beta, "updateStrategy: {rollingUpdate: {podUpdatePolicy: InPlaceOnly, maxSurge: 10%}}",
		"spec.updateStrategy.rollingUpdate.maxSurge", "must be 0 with InPlaceOnly"},
}

func TestRejected(t *testing.T) {
	for name, c := range bad {
		t.Run(name, func(t *testing.T) {
			rejected(t, with(alpha, c.spec), c.field, c.reason)
			rejected(t, with(beta, c.spec), c.field, c.reason)
		})
	}
	for name, c := range badUpdate {
		t.Run(name, func(t *testing.T) {
			inline := "{" + c.update + "}"
			if strings.HasPrefix(c.update, "{") {
				inline = c.update
			}
			rejected(t, with(alpha, "updateStrategy: "+inline), "spec.updateStrategy."+c.field, c.reason)
			rejected(t, with(beta, "updateStrategy: {rollingUpdate: "+inline+"}"), "spec.updateStrategy.rollingUpdate."+c.field, c.reason)
		})
	}
	for name, c := range badWords {
		t.Run(name, func(t *testing.T) { rejected(t, with(c.object, c.spec), c.field, c.reason) })
	}
	t.Run("a name too long for the label of its pods", func(t *testing.T) {
		u := parse(alpha)
		u.SetName(strings.Repeat("a", 53))
		rejected(t, u, "metadata.name", "at most 52 characters")
	})
}

func rejected(t *testing.T, u *unstructured.Unstructured, field, reason string) {
	t.Helper()
	_, err := client.Resource(resource(u)).Namespace("default").Create(t.Context(), u, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	checkRejected(t, u.GetAPIVersion(), err, field, reason)
}

func checkRejected(t *testing.T, what string, err error, field, reason string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s is accepted", what)
		return
	}
	if text := err.Error(); !strings.Contains(text, field) || !strings.Contains(text, reason) {
		t.Errorf("%s\n got  %s\n want %s ... %s", what, text, field, reason)
	}
}
