package cluster

import (
	"k8s.io/client-go/rest"

	"github.com/rehearse-k8s/rehearse/internal/apiserver"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi"
	"github.com/rehearse-k8s/rehearse/internal/kubeletapi/rules"
	"github.com/rehearse-k8s/rehearse/internal/resourcemetrics"
	"github.com/rehearse-k8s/rehearse/internal/stagefiles"
	"github.com/rehearse-k8s/rehearse/stage"
)

// serveKubelets lets the API server forward requests for logs and the like to the kubelets of the simulated nodes.
func serveKubelets(server *apiserver.Server, set *rules.Set, source *resourcemetrics.Source) {
	k := kubeletapi.New(kubeletapi.Options{
		Config: func() *rest.Config { return server.RESTConfig("rehearse:kubelet") },
		Rules:  set, NodePaths: source.NodePaths(), Discovery: source.ServeDiscovery,
	})
	server.ServeKubelets(apiserver.Kubelets{Handler: k, Simulates: k.Simulates})
}

// loadFiles reads Options.StageFiles: stages, and the objects that configure kubelet endpoints and resource usage. Files without a stage leave the
// built-in stages. An invalid file is a *UsageError with the file and the reason.
func loadFiles(names []string) (*stage.Set, *rules.Set, error) {
	set, found, err := stagefiles.Load(names)
	if err != nil {
		return nil, nil, usage("--stages: %v", err)
	}
	return set, found.Rules, nil
}
