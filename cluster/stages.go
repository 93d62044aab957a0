package cluster

import (
	"context"

	"k8s.io/client-go/rest"
)

type stageSet struct{}

func loadStages([]string) (stageSet, error) { return stageSet{}, nil }

func startStages(*rest.Config, stageSet) (func(context.Context), error) {
	return func(context.Context) {}, nil
}
