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
	files, err := stagefiles.Read(names)
	if err != nil {
		return nil, nil, usage("--stages: %v", err)
	}
	found := stagefiles.Split(files...)
	if err := found.Err(); err != nil {
		return nil, nil, usage("--stages: %v", err)
	}
	var all []stage.Stage
	for _, f := range found.Stages {
		stages, err := stage.Load(f.Name, f.Data)
		if err != nil {
			return nil, nil, usage("--stages: %v", err)
		}
		all = append(all, stages...)
	}
	if len(all) == 0 {
		if all, err = stage.Builtin(); err != nil {
			return nil, nil, err
		}
	}
	set, err := stage.Compile(all)
	if err != nil {
		return nil, nil, usage("--stages: %v", err)
	}
	return set, found.Rules, nil
}
