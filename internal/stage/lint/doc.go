// Package lint finds what is wrong with files of stages: what loading rejects, and what is allowed and can be seen
// to go wrong, such as a selector that never matches, a loop without a delay or a status that the API rejects.
//
// Files compiles the stages, compares their selectors, and plays them on sample objects in every order, within
// bounds. Each Finding has file, line, column, severity, stage and field.
//
// It is not needed to run stages: the engine loads them with package stage alone.
//
// Floor: F1, pure. Imports stage, stage/expr, stage/kubelet, api/kwok and yaml.
package lint
