package simtest

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Served returns the resources that the API serves, like ServerPreferredResources of a discovery
// client, and a REST mapper. It sends no requests; discovery requests would be the most expensive
// ones of a run. config is the argument of the constructor. The results are shared and must not be
// changed.
func Served(config *rest.Config) ([]*metav1.APIResourceList, meta.RESTMapper, error) {
	i, ok := config.Transport.(*instance)
	if !ok {
		return nil, nil, errors.New("simtest: Served: this config is not the one that a constructor received")
	}
	s := i.world.server
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.preferred, s.mapper, nil
}
