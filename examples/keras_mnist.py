"""Trains a Keras model on handwritten digits with TensorFlow: every rank its share of each epoch, one model.

    gorun -np 4 -H f1:2,f2:2 python3 keras_mnist.py --epochs 12

TensorFlow knows nothing of gorun: between the gradient and the optimizer the numbers go through NumPy.
"""

import argparse

import numpy as np
import tensorflow as tf

import digits
import gorun.numpy as ring


def network(side, classes=10):
    return tf.keras.Sequential([
        tf.keras.Input((side, side, 1)),
        tf.keras.layers.Conv2D(16, 3, padding="same", activation="relu"),
        tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, activation="relu"),
        tf.keras.layers.Dense(classes),
    ])  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--lr", type=float, default=0.001, help="for one rank; it is multiplied by the number of ranks")
    args = parser.parse_args()

    ring.init()
    rank = ring.rank()
    size = ring.size()
    tf.keras.utils.set_random_seed(42 + rank)
    (images, labels), (test_images, test_labels) = [(np.moveaxis(x, 1, -1), y) for x, y in digits.load()]
    model = network(images.shape[1])
    model.set_weights(ring.broadcast_object(model.get_weights() if rank == 0 else None, root_rank=0))
    optimizer = tf.keras.optimizers.Adam(args.lr * size)
    loss_of = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def gradients_of(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        return loss, tape.gradient(loss, model.trainable_variables)

    steps = len(images) // (args.batch_size * size)
    for epoch in range(1, args.epochs + 1):
        order = np.random.default_rng(epoch).permutation(len(images))  # the same on all ranks
        losses = []
        for step in range(steps):
            batch = order[step * args.batch_size * size :][rank * args.batch_size :][: args.batch_size]
            loss, gradients = gradients_of(images[batch], labels[batch])
            means = ring.grouped_allreduce([g.numpy() for g in gradients], name="gradients")
            optimizer.apply_gradients(zip(map(tf.constant, means), model.trainable_variables))
            losses.append(loss.numpy())
        loss = ring.allreduce(np.mean(losses), name="loss")
        if rank == 0:
            right = np.mean(np.argmax(model(test_images).numpy(), axis=1) == test_labels)
            print(f"epoch {epoch}: loss {float(loss):.4f}, accuracy {right:.2%}", flush=True)
    norm = np.sqrt(sum(float(np.sum(np.square(w, dtype=np.float64))) for w in model.get_weights()))
    print(f"rank {rank} of {size}: weights {norm:.12f}", flush=True)


if __name__ == "__main__":
    main()
