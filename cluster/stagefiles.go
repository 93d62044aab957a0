package cluster

import "github.com/rehearse-k8s/rehearse/stage"

// LoadStages reads files of stages as Options.StageFiles are read, for whoever
// plays them elsewhere. Its error is a *UsageError.
func LoadStages(files []string) (*stage.Set, error) { return loadStages(files) }
