package simtest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// install applies CRDs in the world that the runs are forked from, and waits until the server
// serves them.
func (s *server) install(ctx context.Context, crds []*apiextensionsv1.CustomResourceDefinition) error {
	if len(crds) == 0 {
		return nil
	}
	s.answers.forget() // the server's answers depend on its CRDs
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for _, crd := range crds {
		crd = crd.DeepCopy()
		crd.APIVersion, crd.Kind = "apiextensions.k8s.io/v1", "CustomResourceDefinition"
		body, err := json.Marshal(crd)
		if err != nil {
			return err
		}
		url := "http://rehearse.invalid/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + crd.Name
		x := s.do(func(x *exchange) {
			x.handler, x.method, x.url, x.body = s.handler("simtest"), http.MethodPatch, url+"?fieldManager=simtest&force=true", body
			x.header = http.Header{"Content-Type": {string(types.ApplyYAMLPatchType)}, "Accept": {"application/json"}}
		})
		code, answer := x.code, x.out.String()
		s.release(x)
		if code/100 != 2 {
			return fmt.Errorf("CRD %s: %s", crd.Name, why(code, []byte(answer), nil))
		}
		for _, v := range crd.Spec.Versions {
			if v.Served {
				if err := s.awaitServed(ctx, crd, v.Name); err != nil {
					return err
				}
			}
		}
		s.mu.Lock()
		s.crds[crd.Name] = true
		s.mu.Unlock()
	}
	return s.awaitDiscovered(ctx, crds)
}

// awaitDiscovered repeats discovery until it has the kinds of the CRDs: discovery is updated a
// little later than the endpoints.
func (s *server) awaitDiscovered(ctx context.Context, crds []*apiextensionsv1.CustomResourceDefinition) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := s.discover(); err != nil {
			return err
		}
		missing := s.undiscovered(crds)
		if missing == "" {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("CRD %s: not in discovery after 30 s", missing)
		}
	}
}

func (s *server) undiscovered(crds []*apiextensionsv1.CustomResourceDefinition) string {
	mapper := s.restMapper()
	for _, crd := range crds {
		for _, v := range crd.Spec.Versions {
			kind := schema.GroupKind{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind}
			if _, err := mapper.RESTMapping(kind, v.Name); v.Served && err != nil {
				return crd.Name
			}
		}
	}
	return ""
}

// awaitServed repeats a list until the server serves the resource; the server offers no other
// signal.
func (s *server) awaitServed(ctx context.Context, crd *apiextensionsv1.CustomResourceDefinition, version string) error {
	url := strings.Join([]string{"http://rehearse.invalid/apis", crd.Spec.Group, version, crd.Spec.Names.Plural}, "/")
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		x := s.do(func(x *exchange) {
			x.handler, x.method, x.url = s.handler("simtest"), http.MethodGet, url
			x.header = http.Header{"Accept": {"application/json"}}
		})
		code := x.code
		s.release(x)
		if code == http.StatusOK {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("CRD %s: version %s is not served after 30 s", crd.Name, version)
		}
	}
}
