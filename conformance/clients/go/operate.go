package main

import (
	"context"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "clients.example.test/greeter"

// Greeting is what the operators of all languages act upon.
type Greeting struct {
	v1.TypeMeta   `json:",inline"`
	v1.ObjectMeta `json:"metadata,omitempty"`
	Spec          GreetingSpec   `json:"spec"`
	Status        GreetingStatus `json:"status,omitempty"`
}

// GreetingSpec is the wish.
type GreetingSpec struct {
	Text string `json:"text"`
}

// GreetingStatus is what was done.
type GreetingStatus struct {
	Said string `json:"said,omitempty"`
}

// DeepCopyObject is what caches hand out.
func (g *Greeting) DeepCopyObject() runtime.Object {
	copied := *g
	copied.ObjectMeta = *g.ObjectMeta.DeepCopy()
	return &copied
}

// GreetingList is a page of them.
type GreetingList struct {
	v1.TypeMeta `json:",inline"`
	v1.ListMeta `json:"metadata,omitempty"`
	Items       []Greeting `json:"items"`
}

// DeepCopyObject is what caches hand out.
func (l *GreetingList) DeepCopyObject() runtime.Object {
	copied := *l
	copied.ListMeta = *l.ListMeta.DeepCopy()
	copied.Items = make([]Greeting, len(l.Items))
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopyObject().(*Greeting)
	}
	return &copied
}

type greeter struct{ client.Client }

// A manager that leads, with one controller.
func operate(ctx context.Context, config *rest.Config, namespace string) error {
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	version := schema.GroupVersion{Group: "clients.example.test", Version: "v1"}
	scheme.AddKnownTypes(version, &Greeting{}, &GreetingList{})
	v1.AddToGroupVersion(scheme, version)
	if err := core.AddToScheme(scheme); err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                  scheme,
		Cache:                   cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}},
		Metrics:                 server.Options{BindAddress: "0"},
		LeaderElection:          true,
		LeaderElectionID:        "greeter",
		LeaderElectionNamespace: namespace,
	})
	if err != nil {
		return err
	}
	controller := ctrl.NewControllerManagedBy(manager).For(&Greeting{}).Owns(&core.ConfigMap{})
	if err := controller.Complete(&greeter{manager.GetClient()}); err != nil {
		return err
	}
	return manager.Start(ctx)
}

func (g *greeter) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	greeting := &Greeting{}
	if err := g.Get(ctx, request.NamespacedName, greeting); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !greeting.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, g.leave(ctx, greeting)
	}
	if controllerutil.AddFinalizer(greeting, finalizer) {
		// The update comes back as an event.
		return ctrl.Result{}, g.Update(ctx, greeting)
	}
	if err := g.write(ctx, greeting, greeting.Name, true); err != nil {
		return ctrl.Result{}, err
	}
	before := greeting.DeepCopyObject().(*Greeting)
	greeting.Status.Said = greeting.Spec.Text
	return ctrl.Result{}, g.Status().Patch(ctx, greeting, client.MergeFrom(before))
}

func (g *greeter) write(ctx context.Context, greeting *Greeting, name string, owned bool) error {
	child := &core.ConfigMap{ObjectMeta: v1.ObjectMeta{Name: name, Namespace: greeting.Namespace}}
	_, err := controllerutil.CreateOrUpdate(ctx, g.Client, child, func() error {
		child.Data = map[string]string{"text": greeting.Spec.Text}
		if !owned {
			return nil
		}
		return controllerutil.SetControllerReference(greeting, child, g.Scheme())
	})
	return err
}

func (g *greeter) leave(ctx context.Context, greeting *Greeting) error {
	if err := g.write(ctx, greeting, "farewell-"+greeting.Name, false); err != nil {
		return err
	}
	if controllerutil.RemoveFinalizer(greeting, finalizer) {
		return client.IgnoreNotFound(g.Update(ctx, greeting))
	}
	return nil
}
