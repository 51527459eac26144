"""PPO as a subclass of TRL's GRPOTrainer: trainer.py (rollouts and loss), actor_critic.py (the critic's part in
training and saving), advantages.py (rewards per token, GAE), critic.py, kl.py (exact KL and its price), config.py."""
