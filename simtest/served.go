package simtest

import (
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Served tells a constructor what the API serves, as ServerPreferredResources of a
// discovery client does, and how kinds map to resources: without requests, which
// would be the most expensive ones of a run. config is the one that the constructor
// was given. What is returned is shared and must not be changed.
func Served(config *rest.Config) ([]*metav1.APIResourceList, meta.RESTMapper, error) {
	i, ok := config.Transport.(*instance)
	if !ok {
		return nil, nil, errors.New("simtest: this client was not made for a constructor")
	}
	s := i.world.server
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.preferred, s.mapper, nil
}
