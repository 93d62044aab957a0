package store

import (
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// justNow is how old a time of the machine's clock may be when it is stored.
const justNow = time.Minute

var timeType = reflect.TypeFor[metav1.Time]()

// stampStatus turns times of the machine's clock in an object's status into the run's.
// The server writes some of its own: in the conditions of a pod that it binds or
// evicts, in the list of pods that a disruption budget has let go. The object is the
// caller's, and what has such a time was made for this write.
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

// visitTimes lets replace change the times in v.
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

// holdsTimes reports whether values of a type can hold times that visitTimes reaches.
func holdsTimes(t reflect.Type) bool {
	if known, ok := timesIn.Load(t); ok {
		return known.(bool)
	}
	holds := findTimes(t, map[reflect.Type]bool{})
	timesIn.Store(t, holds)
	return holds
}

// findTimes is holdsTimes without its memory; on the way are types that the search has
// come through, which may hold themselves.
func findTimes(t reflect.Type, onTheWay map[reflect.Type]bool) bool {
	if t == timeType || onTheWay[t] {
		return t == timeType
	}
	onTheWay[t] = true
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && findTimes(f.Type, onTheWay) {
				return true
			}
		}
	case reflect.Slice, reflect.Pointer:
		return findTimes(t.Elem(), onTheWay)
	case reflect.Map:
		return t.Elem() == timeType
	}
	return false
}
