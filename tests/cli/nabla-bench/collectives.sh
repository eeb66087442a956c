# Exchanges between ranks of threads along two axes; nabla-auto-shard computes
# with the numbers of the file that they give; what is refused.
need_compiler
nb collectives --mesh data=2,model=2 --turns 2 --machine machine.json |
  sed -E 's/[0-9]+\.[0-9]+/N/g; s/ +/ /g'
cat >f.mlir <<'MLIR'
nabla.mesh @m <["data"=2, "model"=2]>
func.func @f(%x: tensor<64x64xf32>, %w: tensor<64x64xf32>) -> tensor<64x64xf32> {
  %y = nabla.linear %x, %w : tensor<64x64xf32>, tensor<64x64xf32>
  return %y : tensor<64x64xf32>
}
MLIR
"$(dirname "$NABLA_BENCH")/nabla-opt" f.mlir -o /dev/null \
  --nabla-auto-shard='machine=machine.json dump=plan.json'
python3 - <<'CHECK'
import json
machine, plan = json.load(open("machine.json")), json.load(open("plan.json"))
schema = json.load(open(__import__("os").environ["HERE"] +
                        "/../../docs/schema/nabla-machine-1.json"))
print(set(machine) == set(schema["properties"]))
for key in "operations_per_second", "bytes_per_second":
    print(key, machine[key] == plan[key] > 1e6)
for ours, theirs in zip(machine["axes"], plan["mesh"], strict=True):
    print(ours["name"], ours["name"] == theirs["name"],
          ours["bandwidth"] == theirs["bandwidth"] > 1e6,
          0 < ours["latency"] == theirs["latency"] < 1)
CHECK
for mesh in '' model model=1 model=x model=65 a=8,b=9 a=2,a=2 a=2, =2 \
  a=2,b=2,c=2,d=2,e=2; do
  code=0
  nb collectives --mesh "$mesh" >out 2>&1 || code=$?
  echo "exit $code: $(head -n 1 out | cut -c 1-60)"
done
nb collectives --turns 1 --machine nowhere/machine.json >out 2>err ||
  sed 's/;.*//' err
