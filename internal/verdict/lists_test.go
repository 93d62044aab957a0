package verdict

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// parsed returns an object of its JSON form.
func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return u
}

const webDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"group":"example.com","names":{"kind":"Web"},
"versions":[{"name":"v1","schema":{"openAPIV3Schema":{"properties":{"spec":{"properties":{
"ports":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["port","protocol"]},
"tags":{"type":"array","x-kubernetes-list-type":"set"},
"args":{"type":"array"}}}}}}}]}}`

// TestLists: the elements of a list are compared by their keys, as a set, or in their order, as its schema says. The
// same elements of a list outside of a spec in another order are no difference, and neither are those of a list whose order
// differs between runs without faults.
func TestLists(t *testing.T) {
	types := runtime.NewScheme()
	if err := corev1.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	definition := parsed(t, webDefinition)
	state := func(text string) State {
		u := parsed(t, text)
		u.SetName("a")
		s := schemaOfType(types, u)
		resource := "pods"
		if u.GetKind() == "Web" {
			s, resource = schemaOfDefinition(definition, "v1"), "webs.example.com"
		}
		return NewState([]Object{{Resource: resource, Content: u.Object, Schema: s}})
	}
	pod := func(fields string) string { return `{"apiVersion":"v1","kind":"Pod",` + fields + `}` }
	web := func(fields string) string { return `{"apiVersion":"example.com/v1","kind":"Web",` + fields + `}` }
	for name, c := range map[string]struct {
		without []string // runs without faults
		got     string
		want    string
	}{
		"containers in another order": {
			[]string{pod(`"spec":{"containers":[{"name":"a","image":"x"},{"name":"b","image":"y"}]}`)},
			pod(`"spec":{"containers":[{"name":"b","image":"y"},{"name":"a","image":"x"}]}`), "",
		},
		"another image of a container": {
			[]string{pod(`"spec":{"containers":[{"name":"a","image":"x"},{"name":"b","image":"y"}]}`)},
			pod(`"spec":{"containers":[{"name":"b","image":"z"},{"name":"a","image":"x"}]}`),
			`pods a: spec.containers[name=b].image is "z"; without faults "y"`,
		},
		"arguments in another order": {
			[]string{pod(`"spec":{"containers":[{"name":"a","args":["1","2"]}]}`)},
			pod(`"spec":{"containers":[{"name":"a","args":["2","1"]}]}`),
			`pods a: spec.containers[name=a].args[0] is "2"; without faults "1"`,
		},
		"finalizers in another order": {
			[]string{pod(`"metadata":{"finalizers":["a.b/1","a.b/2"]}`)}, pod(`"metadata":{"finalizers":["a.b/2","a.b/1"]}`), "",
		},
		"another UID of an owner": {
			[]string{pod(`"metadata":{"ownerReferences":[{"uid":"8a7e0c51-d2b3-4604-9e01-00000000000a","name":"o","apiVersion":"v1"}]}`)},
			pod(`"metadata":{"ownerReferences":[{"uid":"8a7e0c51-d2b3-4604-9e01-00000000000b","name":"o","apiVersion":"v1"}]}`), "",
		},
		"another owner": {
			[]string{pod(`"metadata":{"ownerReferences":[{"uid":"8a7e0c51-d2b3-4604-9e01-00000000000a","name":"o","apiVersion":"v1"}]}`)},
			pod(`"metadata":{"ownerReferences":[{"uid":"8a7e0c51-d2b3-4604-9e01-00000000000b","name":"p","apiVersion":"v1"}]}`),
			`pods a: metadata.ownerReferences[uid=<uid>].name is "p"; without faults "o"`,
		},
		"addresses that vary without faults": {
			[]string{pod(`"status":{"podIPs":[{"ip":"10.0.0.1"}]}`), pod(`"status":{"podIPs":[{"ip":"10.0.0.2"}]}`)}, pod(`"status":{"podIPs":[{"ip":"10.0.0.3"}]}`), "",
		},
		"a status in another order": {
			[]string{web(`"status":{"pods":[{"name":"a"},{"name":"b"}]}`)}, web(`"status":{"pods":[{"name":"b"},{"name":"a"}]}`), "",
		},
		"a status with another element": {
			[]string{web(`"status":{"pods":[{"name":"a"},{"name":"b"}]}`)}, web(`"status":{"pods":[{"name":"c"},{"name":"a"}]}`),
			`webs.example.com a: status.pods[1].name is "c"; without faults "b"`,
		},
		"keys of a definition": {
			[]string{web(`"spec":{"ports":[{"port":1,"protocol":"TCP","x":"1"},{"port":1,"protocol":"UDP","x":"2"}]}`)},
			web(`"spec":{"ports":[{"port":1,"protocol":"UDP","x":"2"},{"port":1,"protocol":"TCP","x":"3"}]}`),
			`webs.example.com a: spec.ports[port=1,protocol=TCP].x is "3"; without faults "1"`,
		},
		"a set of a definition":  {[]string{web(`"spec":{"tags":["a","b"]}`)}, web(`"spec":{"tags":["b","a"]}`), ""},
		"a list of a definition": {[]string{web(`"spec":{"args":["a","b"]}`)}, web(`"spec":{"args":["b","a"]}`), `webs.example.com a: spec.args[0] is "b"; without faults "a"`},
		"the order differs without faults": {
			[]string{web(`"spec":{"args":["a","b","c"]}`), web(`"spec":{"args":["b","a","c"]}`)}, web(`"spec":{"args":["c","b","a"]}`), "",
		},
		"the order differs, and an element": {
			[]string{web(`"spec":{"args":["a","b"]}`), web(`"spec":{"args":["b","a"]}`)}, web(`"spec":{"args":["d","a"]}`),
			`webs.example.com a: spec.args[1] is "d"; without faults "b"`,
		},
		"an element less": {
			[]string{web(`"status":{"pods":["a","b"]}`)}, web(`"status":{"pods":["b"]}`), `webs.example.com a: status.pods[0] is "b"; without faults "a"`,
		},
		"a duplicate key": {
			[]string{pod(`"spec":{"containers":[{"name":"a","image":"x"},{"name":"a","image":"y"}]}`)},
			pod(`"spec":{"containers":[{"name":"a","image":"x"},{"name":"a","image":"z"}]}`),
			`pods a: spec.containers[1].image is "z"; without faults "y"`,
		},
	} {
		var states []State
		for _, text := range c.without {
			states = append(states, state(text))
		}
		got := ""
		if err := NewBaseline(states).Compare(state(c.got)); err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

// TestPlacesOfPods: an object that repeats the node, the address or the generated name of a pod does not differ for that.
func TestPlacesOfPods(t *testing.T) {
	state := func(node, ip, name, text string) State {
		pod := parsed(t, `{"metadata":{"name":"`+name+`","generateName":"web-","namespace":"default","uid":"u-`+name+`"},"spec":{"nodeName":"`+node+`"},"status":{"podIP":"`+ip+`"}}`)
		slice := parsed(t, `{"metadata":{"name":"web","namespace":"default"},"endpoints":[{"addresses":["`+ip+`"],"nodeName":"`+node+`","targetRef":{"name":"`+name+`","uid":"u-`+name+`"},"hint":"`+text+`"}]}`)
		return NewState([]Object{{Resource: "pods", Content: pod.Object}, {Resource: "endpointslices.discovery.k8s.io", Content: slice.Object}},
			Path{"pods", "spec.nodeName"}, Path{"pods", "status.podIP"})
	}
	b := NewBaseline([]State{state("node-0", "10.0.0.1", "web-abcde", "x")})
	if err := b.Compare(state("node-1", "10.0.0.2", "web-fghij", "x")); err != nil {
		t.Error(err)
	}
	if err := b.Compare(state("node-0", "10.0.0.1", "web-abcde", "node-1")); err == nil {
		t.Error("another node is no difference")
	}
}

// TestGeneratedKeys: the generated name of a volume, by which a list is keyed, does not differ between runs.
func TestGeneratedKeys(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	state := func(volume, mode string) State {
		pod := parsed(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"default"},"spec":{"volumes":[{"name":"`+volume+`","projected":{"defaultMode":`+mode+`}}]}}`)
		return NewState([]Object{{Resource: "pods", Content: pod.Object, Schema: schemaOfType(scheme, pod)}})
	}
	b := NewBaseline([]State{state("kube-api-access-bcdfg", "420"), state("kube-api-access-2x4z5", "420")})
	if err := b.Compare(state("kube-api-access-hjklm", "420")); err != nil {
		t.Error(err)
	}
	if err := b.Compare(state("kube-api-access-hjklm", "256")); err == nil || !strings.Contains(err.Error(), "defaultMode") {
		t.Errorf("another mode: %v", err)
	}
}
