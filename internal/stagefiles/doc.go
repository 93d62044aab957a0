// Package stagefiles reads the files of --stages, which may contain objects of several kinds.
//
// It finds the files of a directory, and separates the objects in them: stages, objects that configure kubelet endpoints, and
// objects of other kinds, which have no effect and are listed for a warning. KWOK's directories of stages contain such
// objects, for example a StorageClass.
//
// It decodes no stage: package stage does.
//
// Floor: F2. Imports stage and kubeletapi/rules.
package stagefiles
