"""Which kubectl commands are run, and what is known of them."""

import pytest

from sregym.gateway.mcp.command import Effect, Refused, parse, with_flags, without_flags

MANIFEST = " <<EOF\na: b\nEOF"


@pytest.mark.parametrize(
    ("text", "effect"),
    [
        ("kubectl get pods -A -o wide", Effect.READS),
        ("kubectl -n shop get pods", Effect.READS),
        ("kubectl --namespace=shop logs web -c app --tail=5 -p", Effect.READS),
        ("kubectl logs -f deploy/web", Effect.READS),
        ("kubectl describe pod/web", Effect.READS),
        ("kubectl top pods", Effect.READS),
        ("kubectl auth can-i delete pods", Effect.READS),
        ("kubectl rollout -n shop status deploy/web", Effect.READS),
        ("kubectl rollout history deploy/web", Effect.READS),
        ("kubectl wait --for=condition=ready pod/web --timeout=20s", Effect.READS),
        ("kubectl scale deploy web --replicas=3", Effect.CHANGES),
        ("kubectl set -n shop image deploy/web web=web:2", Effect.CHANGES),
        ("kubectl set env deploy/web A=b", Effect.CHANGES),
        ("kubectl set env deploy/web --list", Effect.READS),
        ("kubectl label pod web a=b", Effect.CHANGES),
        ("kubectl label pod web --list", Effect.READS),
        ("kubectl annotate pod web a-", Effect.CHANGES),
        ("kubectl patch svc web -p '{\"spec\":{}}'", Effect.CHANGES),
        (f"kubectl apply -f -{MANIFEST}", Effect.CHANGES),
        (f"kubectl apply --dry-run=server -f -{MANIFEST}", Effect.READS),
        (f"kubectl create --filename=-{MANIFEST}", Effect.CHANGES),
        ("kubectl create deployment web --image=web", Effect.CHANGES),
        ("kubectl run web --image=web --command -- sleep -f 5", Effect.CHANGES),
        ("kubectl expose deploy web --port=80", Effect.CHANGES),
        ("kubectl autoscale deploy web --max=3", Effect.CHANGES),
        ("kubectl taint nodes w1 a=b:NoSchedule", Effect.CHANGES),
        ("kubectl delete pod web --grace-period=0 --force", Effect.DELETES),
        (f"kubectl delete -f -{MANIFEST}", Effect.DELETES),
        ("kubectl cordon w1", Effect.CHANGES_NAMED),
        ("kubectl drain w1 --ignore-daemonsets", Effect.CHANGES_NAMED),
        ("kubectl rollout undo deploy/web --to-revision=2", Effect.CHANGES_NAMED),
        ("kubectl rollout pause deploy/web", Effect.CHANGES_NAMED),
        ("kubectl rollout restart deploy/web", Effect.CANNOT_BE_UNDONE),
        ("kubectl exec web -- cat -f /etc/x --kubeconfig=y", Effect.CANNOT_BE_UNDONE),
        ("kubectl debug pod/web --image=tools -- sleep 5", Effect.CANNOT_BE_UNDONE),
        ("kubectl scale deploy web --replicas=3 --help", Effect.READS),
    ],
)
def test_what_is_run_and_what_it_does(text: str, effect: Effect) -> None:
    command = parse(text)
    assert command.effect is effect
    assert command.argv[0] != "kubectl"
    assert command.warning or effect is not Effect.CANNOT_BE_UNDONE


REFUSED = [
    ("get pods", "begin with `kubectl`"),
    ("", "begin with `kubectl`"),
    ("/usr/bin/kubectl get pods", "begin with `kubectl`"),
    ("kubectl", "no verb"),
    ("kubectl --help", "which command"),
    ("kubectl frobnicate", "there is no"),
    ("kubectl rollout frobnicate x", "there is no"),
    ("kubectl edit deploy web", "patch"),
    ("kubectl exec -it web -- sh", "no terminal"),
    ("kubectl exec -ti web -- sh", "no terminal"),
    ("kubectl exec web --stdin --tty -- sh", "no terminal"),
    ("kubectl exec -i=true web -- sh", "no terminal"),
    ("kubectl run -it --rm web --image=x", "no terminal"),
    ("kubectl run web --image=x --attach", "no terminal"),
    ("kubectl debug -it pod/web --image=x", "no terminal"),
    ("kubectl attach web", "terminal"),
    ("kubectl port-forward web 80:80", "exec POD"),
    ("kubectl proxy", "-o json"),
    ("kubectl cp web:/etc/passwd /tmp/x", "no files"),
    ("kubectl diff -f -", "dry-run"),
    ("kubectl config view --raw", "one cluster"),
    ("kubectl plugin list", "plugins"),
    ("kubectl kustomize /", "files"),
    ("kubectl create token default", "tokens"),
    ("kubectl auth reconcile -f -", "apply"),
    ("kubectl cluster-info dump", "too much"),
    ("kubectl apply edit-last-applied deploy/web", "annotate"),
    ("kubectl apply -f /etc/passwd", "no files"),
    ("kubectl apply -f/etc/passwd", "no files"),
    ("kubectl apply --filename=/etc/passwd", "no files"),
    ("kubectl apply --filename /etc/passwd", "no files"),
    ("kubectl apply -f http://169.254.169.254/", "no files"),
    ("kubectl apply -Rf /etc", "no files"),
    ("kubectl apply -f -" + MANIFEST.replace("<<EOF", "-f /etc/passwd <<EOF"), "no files"),
    ("kubectl apply -k /etc", "no files"),
    ("kubectl apply -f -", "reads a document"),
    ("kubectl get pods" + MANIFEST, "nothing reads it"),
    ("kubectl apply --prune -f -" + MANIFEST, "by its name"),
    ("kubectl create configmap x --from-file=/etc/passwd", "no files"),
    ("kubectl create configmap x --from-env-file /etc/passwd", "no files"),
    ("kubectl create secret tls x --cert=/a --key=/b", "no files"),
    ("kubectl patch deploy web --patch-file /etc/passwd", "no files"),
    ("kubectl get pods -o custom-columns-file=/etc/passwd", "no files"),
    ("kubectl get pods -ogo-template-file=/etc/passwd", "no files"),
    ("kubectl get pods -o=templatefile=/etc/passwd", "no files"),
    ("kubectl get --raw /api/v1/secrets", "-o json"),
    ("kubectl create --raw /api/v1/x -f -" + MANIFEST, "-o json"),
    ("kubectl get pods --kubeconfig /root/.kube/config", "who you are"),
    ("kubectl --kubeconfig=/root/.kube/config get pods", "who you are"),
    ("kubectl get pods --as system:admin", "who you are"),
    ("kubectl get pods --as-group=system:masters", "who you are"),
    ("kubectl get pods --as-uid=0", "who you are"),
    ("kubectl get pods --token=x", "who you are"),
    ("kubectl get pods -s http://10.0.0.1", "who you are"),
    ("kubectl get pods -shttp://10.0.0.1", "who you are"),
    ("kubectl -s http://10.0.0.1 get pods", "who you are"),
    ("kubectl get pods --server=http://10.0.0.1", "who you are"),
    ("kubectl get pods --context other", "who you are"),
    ("kubectl get pods --cluster=other", "who you are"),
    ("kubectl get pods --user=admin", "who you are"),
    ("kubectl get pods --client-key=/x", "who you are"),
    ("kubectl get pods --insecure-skip-tls-verify", "who you are"),
    ("kubectl get pods --cache-dir=/tmp/x", "no files"),
    ("kubectl get pods --profile=cpu --profile-output=/tmp/x", "no files"),
    ("kubectl --v=9 get pods", "behind the verb"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=[text[:40] or "empty" for text, _ in REFUSED])
def test_what_is_refused_says_what_to_do_instead(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        parse(text)


@pytest.mark.parametrize("text", ["kubectl logs -f web", "kubectl get pods -w", "kubectl events --watch"])
def test_what_would_go_on_for_ever_is_known(text: str) -> None:
    assert parse(text).endless


def test_flags_are_taken_out_and_put_in_where_flags_belong() -> None:
    words = ("scale", "deploy", "web", "-o", "json", "-oyaml", "--output=name", "--replicas=2", "--", "-o", "x")
    kept = without_flags(words, valued=frozenset({"o", "output"}), switches=frozenset())
    assert kept == ["scale", "deploy", "web", "--replicas=2", "--", "-o", "x"]
    command = with_flags(parse("kubectl run web --image=x -- sleep 5"), "--dry-run=server")
    assert command.argv == ("run", "web", "--image=x", "--dry-run=server", "--", "sleep", "5")
