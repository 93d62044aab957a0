package stagefiles

import "github.com/rehearse-k8s/rehearse/stage"

// Load reads and splits the files that names stand for (see Expand), and compiles their stages; without a stage, the built-in ones. An error names
// the file and the reason.
func Load(names []string) (*stage.Set, *Contents, error) {
	files, err := Read(names)
	if err != nil {
		return nil, nil, err
	}
	found := Split(files...)
	if err := found.Err(); err != nil {
		return nil, nil, err
	}
	var all []stage.Stage
	for _, f := range found.Stages {
		stages, err := stage.Load(f.Name, f.Data)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, stages...)
	}
	if len(all) == 0 {
		if all, err = stage.Builtin(); err != nil {
			return nil, nil, err
		}
	}
	set, err := stage.Compile(all)
	return set, found, err
}
