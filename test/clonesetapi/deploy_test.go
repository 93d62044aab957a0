package clonesetapi

import (
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/rehearse-k8s/rehearse/api/crds"
)

// TestDeploy checks the manifests for other clusters: the CloneSet version that needs no webhook, equal to the
// one here, and the policies.
func TestDeploy(t *testing.T) {
	out, err := kubectlRun(t, "kustomize", "../../deploy/clonesets")
	if err != nil {
		t.Fatal(err, out)
	}
	var ours, full apiextensionsv1.CustomResourceDefinition
	policies := 0
	for _, doc := range documents([]byte(out)) {
		u := parse(string(doc))
		if u.GetKind() == "CustomResourceDefinition" {
			err = yaml.UnmarshalStrict(doc, &ours)
		} else if strings.HasPrefix(u.GetKind(), "ValidatingAdmissionPolicy") {
			policies++
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := yaml.UnmarshalStrict(crds.CloneSet(), &full); err != nil {
		t.Fatal(err)
	}
	if policies != len(documents(crds.CloneSetPolicies())) {
		t.Errorf("%d policies and bindings", policies)
	}
	if len(ours.Spec.Versions) != 1 || ours.Spec.Conversion.Strategy != apiextensionsv1.NoneConverter {
		t.Fatalf("versions %d, conversion %v", len(ours.Spec.Versions), ours.Spec.Conversion)
	}
	same(t, full.Spec.Versions[0], ours.Spec.Versions[0])
	// The API server would accept it only under another group, because it has this one already.
	ours.Spec.Group = "deploy.example.com"
	ours.Annotations = map[string]string{}
	ours.Name = "clonesets." + ours.Spec.Group
	data, err := yaml.Marshal(ours)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Resource(definitions["CustomResourceDefinition"]).Create(t.Context(), parse(string(data)), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Error(err)
	}
}
