package store

import (
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// justNow is the maximum age at which a stored time counts as set by the machine's clock.
const justNow = time.Minute

var timeType = reflect.TypeFor[metav1.Time]()

// stampStatus replaces times of the machine's clock in an object's status by the run's time. The
// server sets such times in the conditions of a pod that it binds or evicts, and in the disrupted
// pods of a PodDisruptionBudget. The caller owns the object.
func stampStatus(obj runtime.Object, machine, run time.Time) {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return
	}
	status := v.Elem().FieldByName("Status")
	if !status.IsValid() || !holdsTimes(status.Type()) {
		return
	}
	visitTimes(status, func(t metav1.Time) (metav1.Time, bool) {
		ofMachine := t.After(machine.Add(-justNow)) && !t.After(machine.Add(time.Second))
		return metav1.NewTime(run), ofMachine
	})
}

// visitTimes replaces the times in v by the results of replace.
func visitTimes(v reflect.Value, replace func(metav1.Time) (metav1.Time, bool)) {
	if v.Type() == timeType {
		if t, ok := replace(v.Interface().(metav1.Time)); ok && v.CanSet() {
			v.Set(reflect.ValueOf(t))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && holdsTimes(f.Type) {
				visitTimes(v.Field(i), replace)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			visitTimes(v.Index(i), replace)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			visitTimes(v.Elem(), replace)
		}
	case reflect.Map:
		if v.Type().Elem() != timeType {
			return
		}
		for entries := v.MapRange(); entries.Next(); {
			if t, ok := replace(entries.Value().Interface().(metav1.Time)); ok {
				v.SetMapIndex(entries.Key(), reflect.ValueOf(t))
			}
		}
	}
}

var timesIn sync.Map // reflect.Type -> bool

// holdsTimes reports whether values of a type can contain times that visitTimes reaches.
func holdsTimes(t reflect.Type) bool {
	if known, ok := timesIn.Load(t); ok {
		return known.(bool)
	}
	holds := findTimes(t, map[reflect.Type]bool{})
	timesIn.Store(t, holds)
	return holds
}

// findTimes is holdsTimes without its cache; visiting contains the types that the search is in,
// because a type can contain itself.
func findTimes(t reflect.Type, visiting map[reflect.Type]bool) bool {
	if t == timeType || visiting[t] {
		return t == timeType
	}
	visiting[t] = true
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && findTimes(f.Type, visiting) {
				return true
			}
		}
	case reflect.Slice, reflect.Pointer:
		return findTimes(t.Elem(), visiting)
	case reflect.Map:
		return t.Elem() == timeType
	}
	return false
}
